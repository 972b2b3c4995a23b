"""Login, tokens, and who may do what."""

import base64
import json
import re

import pytest

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def claims(token: str) -> dict:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_token_is_a_jwt_with_a_day_to_live(box):
    """A token carries iss, iat, exp and sub, and exp - iat is the session time."""
    found = claims(box.token)
    assert found["iss"] == "com.cisco.virl"
    assert found["exp"] - found["iat"] == box.get("/web_session_timeout") == 86_400
    assert found["sub"] == "00000000-0000-4000-a000-000000000000"
    assert box.get("/authok") == "OK"


def test_wrong_password_is_403_and_missing_token_401(box):
    """CML answers 403 at the login and 401 everywhere else."""
    bad = {"username": "admin", "password": "no"}
    assert box.refusal("POST", "/authenticate", bad) == (403, "Authentication failed!")
    box.token = None
    assert box.refusal("GET", "/labs")[0] == 401


@pytest.mark.parametrize("token", ["x", "a.b.c", "..", "é.b.c", ""])
def test_broken_tokens_are_401(box, token):
    """Nothing but a token that the server signed opens a door."""
    box.token = token
    assert box.refusal("GET", "/labs")[0] == 401


def test_token_expires_by_the_simulated_clock(box):
    """A token is good until exp and not a second longer."""
    box.clock.forward(86_399)
    assert box.get("/authok") == "OK"
    box.clock.forward(2)
    assert box.refusal("GET", "/authok")[0] == 401


def test_session_time_holds_for_new_tokens(box):
    """PATCH web_session_timeout changes the life of the next token."""
    assert box.ask("PATCH", "/web_session_timeout/10") == "OK"
    box.login()
    assert claims(box.token)["exp"] - claims(box.token)["iat"] == 10
    assert box.refusal("PATCH", "/web_session_timeout/soon")[0] == 400


def test_logout_revokes_one_or_all(box):
    """Logout ends this session; with clear_all_sessions every session of the user."""
    first = box.token
    box.login()
    assert box.ask("DELETE", "/logout") is True
    assert box.refusal("GET", "/authok")[0] == 401
    box.token = first
    assert box.get("/authok") == "OK"
    box.ask("DELETE", "/logout", query={"clear_all_sessions": "true"})
    assert box.refusal("GET", "/authok")[0] == 401


def test_power_cycle_kills_tokens(box):
    """After an EC2 stop and start, old tokens are no good."""
    box.control("POST", f"/servers/{box.server.id}/stop")
    box.control("POST", f"/servers/{box.server.id}/boot")
    assert box.refusal("GET", "/authok")[0] == 401
    box.login()


def test_people_without_admin_rights_see_their_own(box):
    """Licensing and foreign labs are 403 for ordinary users, and lists hide the labs."""
    box.ask("POST", "/users", {"username": "eva", "password": "x"}, want=201)
    lab = box.ask("POST", "/labs", {"title": "admins"})["id"]
    box.login("eva", "x")
    assert box.refusal("GET", "/licensing")[0] == 403
    assert box.refusal("GET", f"/labs/{lab}")[0] == 403
    assert box.get("/labs", query={"show_all": "true"}) == []
    assert box.get("/system_health")["computes"] == {}
    mine = box.ask("POST", "/labs", {})["id"]
    assert UUID4.fullmatch(mine)
    assert box.get("/labs") == [mine]


def test_maintenance_mode_locks_people_out(box):
    """In maintenance mode all calls of ordinary users are 403; the mode is public."""
    box.ask("POST", "/users", {"username": "eva", "password": "x"}, want=201)
    box.ask("PATCH", "/system/maintenance_mode", {"maintenance_mode": True, "notice": None})
    box.login("eva", "x")
    assert box.refusal("GET", "/labs")[0] == 403
    box.token = None
    assert box.get("/system/maintenance_mode")["maintenance_mode"] is True


def test_unknown_path_404_wrong_method_405(box):
    """The simulator is strict about paths and methods, as 2.9 is with newer clients."""
    assert box.refusal("GET", "/nothing")[0] == 404
    lab = box.ask("POST", "/labs", {})["id"]
    assert box.refusal("GET", f"/labs/{lab}/interfaces")[0] == 405
    assert box.refusal("GET", f"/labs/{lab}/")[0] == 404


def test_closed_bodies_answer_in_cmls_form(box):
    """Unknown keys are a 400 whose description is a string that holds JSON."""
    status, text = box.refusal("POST", "/labs", {"title": "a", "colour": "red"})
    assert status == 400
    problem = json.loads(text)["Input validation failed"][0]
    assert problem["location"] == ["body", "colour"]
    assert problem.keys() == {"location", "type", "message"}
    assert box.refusal("POST", "/labs", raw=b"{nope")[0] == 400
    assert box.refusal("POST", "/labs", raw=b"[1]")[0] == 400


def test_users_and_groups(box):
    """Names can be looked up, are unique, and passwords never come back."""
    user = box.ask("POST", "/users", {"username": "eva", "password": "s3cret-word"}, want=201)
    assert box.get("/users/eva/id") == user["id"]
    assert box.refusal("GET", "/users/nobody/id") == (404, "User does not exist: nobody")
    again = {"username": "eva", "password": "x"}
    assert box.refusal("POST", "/users", again)[0] == 400
    assert "s3cret-word" not in json.dumps(box.get("/users"))
    assert "s3cret-word" not in repr(box.server)
    group = box.ask("POST", "/groups", {"name": "g", "members": [user["id"]]}, want=201)
    assert box.get("/groups/g/id") == group["id"]
