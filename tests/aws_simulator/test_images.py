"""Images: the same name by a stranger and in another region, and one that is withdrawn."""

from aws_simulator_process import code_of


def named(client, **fields):
    """Return the ids of the images that a name pattern finds."""
    wanted = [{"Name": "name", "Values": ["cisco-cml2*"]}]
    return [
        image["ImageId"] for image in client.describe_images(Filters=wanted, **fields)["Images"]
    ]


def test_a_stranger_may_use_the_same_name(fake, ec2):
    """The pattern alone finds the foreign image too; the owner tells them apart."""
    foreign = fake.ask("POST", "images", {"name": "cisco-cml2.9.1-lab", "owner": "999999999999"})
    assert sorted(named(ec2)) == sorted([fake.image, foreign["ami_id"]])
    assert named(ec2, Owners=["self"]) == [fake.image]
    assert named(ec2, Owners=["999999999999"]) == [foreign["ami_id"]]


def test_two_regions_have_the_same_name_with_other_ids(fake, ec2, launch):
    """An image of the other region is found there only, and cannot be launched here."""
    west = fake.ask("POST", "images", {"name": "cisco-cml2.9.1-lab", "region": "us-west-2"})
    assert named(fake.client(region="us-west-2")) == [west["ami_id"]]
    assert named(ec2) == [fake.image]
    assert code_of(launch, ImageId=west["ami_id"])[1] == "InvalidAMIID.NotFound"


def test_instances_outlive_their_image(fake, ec2, launch, state_of):
    """A deregistered image is no longer found while its instances go on under its id."""
    (instance_id,) = launch()
    fake.ask("DELETE", "images", {"ami_id": fake.image})
    assert named(ec2) == []
    assert state_of(instance_id)["ImageId"] == fake.image
    by_image = [{"Name": "image-id", "Values": [fake.image]}]
    assert len(ec2.describe_instances(Filters=by_image)["Reservations"]) == 1


def test_a_newer_image_has_the_later_date(fake, ec2):
    """The creation date can be set, so that the newest of a name can be chosen."""
    fields = {"name": "cisco-cml2.10.0", "created": "2030-01-01T00:00:00+00:00"}
    newer = fake.ask("POST", "images", fields)["ami_id"]
    images = ec2.describe_images(Owners=["self"])["Images"]
    assert max(images, key=lambda image: image["CreationDate"])["ImageId"] == newer
