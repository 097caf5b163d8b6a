# Counts a visit once, however often it has to ask: python3 visits.py URL NAME [TOKEN]
import json, sys, time, urllib.error, urllib.parse, urllib.request, uuid

url, name, token = (sys.argv[1:] + [""])[:3]
headers = {"Idempotency-Key": str(uuid.uuid4())}
if token:
    headers["Authorization"] = "Bearer " + token
path = "/call/grain/visitor/visit/" + urllib.parse.quote(name, safe="")
while True:
    try:
        request = urllib.request.Request(url + path, method="POST", headers=headers)
        print(json.load(urllib.request.urlopen(request, timeout=60)))
        break
    except urllib.error.HTTPError as e:
        if e.code not in (429, 503, 504):
            sys.exit(e.read().decode())
    except OSError as e:  # the answer is lost: the same key makes it safe to ask again
        print(e, file=sys.stderr)
    time.sleep(0.5)
