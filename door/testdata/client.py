import json, sys, urllib.error, urllib.request

url, token = sys.argv[1:]


def ask(method, path, body=None, **headers):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(url + "/call/" + path, data, headers, method=method))


pay = [json.load(ask("POST", "grain/door.account/add/py%2F%C3%BC", {"n": 5}, Idempotency_Key="k1")) for _ in range(2)]
print(*pay)
try:
    ask("POST", "grain/door.account/add/py%2F%C3%BC", {"n": -9})
except urllib.error.HTTPError as e:
    p = json.load(e)
    print(e.code, p["detail"], p["ran"])
seen, event = [], ""
for line in ask("POST", "task/door.count", 3, Accept="text/event-stream"):
    name, _, value = line.decode().strip().partition(": ")
    if name == "event":
        event = value
    elif name == "data":
        seen.append(event or value)
print(*seen)
ask("PUT", "task/door%2Fsquare/py", 7)
print(json.load(ask("GET", "task/door%2Fsquare/py?wait=30s")) * 2 // 7)
