"""What kubectl is asked to do with a simulated cluster, and what it must say: data for a test.

Each group is a list of command lines with a text that the answer must hold. `@name` stands for the
file of that name in FILES.
"""

from __future__ import annotations

FILES = {
    "web": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: nginx:1.25
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 250m, memory: 128Mi}, limits: {memory: 256Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
""",
    "wrong": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: wrong}
spec:
  replicaz: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
""",
    "db": """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "postgres:16"}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
""",
    "run": """
apiVersion: batch/v1
kind: Job
metadata: {name: run}
spec:
  completions: 2
  parallelism: 2
  template:
    metadata: {annotations: {kubernetes-simulator/duration: 20s}}
    spec: {restartPolicy: Never, containers: [{name: main, image: "busybox:1"}]}
""",
    "hog": """
apiVersion: v1
kind: Pod
metadata: {name: hog, annotations: {kubernetes-simulator/memory: 300Mi, kubernetes-simulator/duration: 20s}}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "busybox:1", resources: {limits: {memory: 200Mi}}}
""",
    "many": """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {x: "1"}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {x: "2"}}
""",
    "secured": """
apiVersion: v1
kind: ConfigMap
metadata: {name: applied}
data: {x: "1"}
""",
}
Call = tuple[str, str]
CALLS: dict[str, list[Call]] = {
    "see what there is": [
        ("version", "Server Version: v1.32"),
        ("cluster-info", "control plane is running"),
        ("api-resources", "deployments"),
        ("api-versions", "metrics.k8s.io/v1beta1"),
        ("explain deployment.spec", "GROUP:      apps"),
        ("get nodes -o wide", "containerd"),
        ("get --raw /healthz", "ok"),
    ],
    "create by command": [
        ("create namespace t", "created"),
        ("create configmap cm --from-literal=a=b", "created"),
        ("create secret generic s --from-literal=a=b", "created"),
        ("create serviceaccount bot", "created"),
        ("create role r --verb=get --resource=pods", "created"),
        ("create rolebinding rb --role=r --serviceaccount=t:bot", "created"),
        ("create clusterrole cr --verb=get --resource=pods", "created"),
        ("create clusterrolebinding crb --clusterrole=cr --user=me", "created"),
        ("create poddisruptionbudget pdb --selector=app=web --min-available=1", "created"),
        ("create deployment made --image=nginx:1 --replicas=1 --port=80", "created"),
        ("create job made --image=busybox:1 -- sleep 1", "created"),
        ("create service clusterip made --tcp=80:8080", "created"),
        ("create token bot", "sa-"),
        ("run alone --image=busybox:1 --restart=Never", "created"),
        ("expose deployment made --port=80 --name=shown", "exposed"),
        ("get secret s -o jsonpath={.data.a}", "Yg=="),
        ("create configmap cm --from-literal=a=b", "already exists"),
        ("delete deployment,job,pod,service --all --wait=false", "deleted"),
    ],
    "apply": [
        ("apply -f @web", "deployment.apps/web created"),
        ("apply -f @web", "deployment.apps/web unchanged"),
        ("apply -f @wrong", 'unknown field "spec.replicaz"'),
        ("apply -f @many", "configmap/second created"),
        ("apply -f @web --dry-run=server", "unchanged (server dry run)"),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
        ("apply --server-side -f @secured", "serverside-applied"),
        ("apply --server-side -f @secured --field-manager=other", "serverside-applied"),
        ("get all", "deployment.apps/web"),
    ],
    "change": [
        ("scale deployment/web --replicas=3", "scaled"),
        ("set image deployment/web main=nginx:1.26", "image updated"),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
        ("rollout history deployment/web", "2         <none>"),
        ("rollout undo deployment/web", "rolled back"),
        ("rollout restart deployment/web", "restarted"),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out"),
        ("rollout pause deployment/web", "paused"),
        ("rollout resume deployment/web", "resumed"),
        ("label pod -l app=web x=y", "labeled"),
        ("annotate deployment web a=b", "annotated"),
        ('patch deployment web -p {"spec":{"replicas":2}}', "patched"),
        ('patch deployment web --type=merge -p {"spec":{"replicas":1}}', "patched"),
        (
            'patch deployment web --type=json -p [{"op":"remove","path":"/metadata/annotations/a"}]',
            "patched",
        ),
        ("replace --force -f @secured", "replaced"),
        ("autoscale deployment web --max=3", "could not find the requested resource"),
    ],
    "run": [
        ("apply -f @run -f @hog -f @db", "job.batch/run created"),
        ("wait --for=condition=complete job/run --timeout=60s", "condition met"),
        ("wait --for=jsonpath={.status.phase}=Failed pod/hog --timeout=60s", "condition met"),
        ("get pod hog", "OOMKilled"),
        ("logs job/run", "ended: Completed"),
        ("rollout status statefulset/db --timeout=60s", "complete"),
        ("get pvc", "data-db-1"),
        ("get pods -l app=db -o name", "pod/db-0"),
        ("get pods --field-selector=status.phase=Failed -o name", "pod/hog"),
        ("get pods --chunk-size=2 --sort-by=.metadata.name", "hog"),
        ("describe pod hog", "OOMKilling"),
        ("describe deployment web", "NewReplicaSetAvailable"),
        ("get events", "FailedScheduling|Scheduled"),
        ("events", "Started container main"),
        ("exec db-0 -- ls", "is not simulated"),
    ],
    "nodes and use": [
        ("top nodes", "node-1"),
        ("top pods", "db-0"),
        ("top pods --containers", "main"),
        ("describe node node-1", "Allocated resources"),
        ("cordon node-1", "cordoned"),
        (
            "drain node-1 --ignore-daemonsets --force --delete-emptydir-data --timeout=60s",
            "drained",
        ),
        ("get nodes", "SchedulingDisabled"),
        ("uncordon node-1", "uncordoned"),
        ("taint node node-2 a=b:NoSchedule", "tainted"),
        ("taint node node-2 a-", "untainted"),
    ],
    "who may": [
        ("auth whoami", "kubernetes-admin"),
        ("auth can-i create pods", "yes"),
        ("auth can-i --list", "*.*"),
    ],
    "delete": [
        ("delete -f @web --wait", "deleted"),
        ("delete job run --cascade=foreground", "deleted"),
        ("delete pod db-0 --force --grace-period=0", "deleted"),
        ("delete namespace t --timeout=60s", "deleted"),
        ("get namespace t", "NotFound"),
    ],
}
