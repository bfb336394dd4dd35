"""Scoped tokens made and read with PyJWT, an ordinary JWT library, in the format of the interface; prints what came of each
use as one JSON object.

Environment: BASE_URL, API_KEY, CHAT, VECTORS (names of models; the first one costs USD 20 per million tokens of an answer).
"""
import base64
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request

import jwt

CHAT, VECTORS = os.environ["CHAT"], os.environ["VECTORS"]
found = {}


def call(token, path, body=None):
    request = urllib.request.Request(os.environ["BASE_URL"] + path, method="GET" if body is None else "POST")
    request.add_header("authorization", f"Bearer {token}")
    if body is not None:
        request.add_header("content-type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, data, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def used(token, path="/v1/chat/completions", model=CHAT):
    """The status, and the code where it was refused."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    if path == "/v1/embeddings":
        body = {"model": model, "input": "Hi"}
    status, answer = call(token, path, None if path == "/v1/me" else body)
    if status == 200:
        return [status]
    # On routes of the account the error is one text, and the code beside it.
    error = answer["error"]
    return [status, error["code"] if isinstance(error, dict) else answer.get("code")]


uid = call(os.environ["API_KEY"], "/v1/me")[1]["uid"]
# The name is in the header: in base64 this one is padded and has both signs that URLs write otherwise.
name = "key ÿ>?"
made = call(os.environ["API_KEY"], "/v1/api-tokens", {"name": name})[1]
secret = made["token"]
header = {"kid": f"{uid}:{base64.b64encode(name.encode()).decode()}"}
hour = int(time.time()) + 3600


def minted(by=secret, algorithm="HS256", headers=header, **claims):
    return "jwt:" + jwt.encode({"sub": uid, "exp": hour, **claims}, by, algorithm=algorithm, headers=headers)


scoped = minted(models=[CHAT])
found["used"] = [used(scoped), used(minted(model=CHAT)), used(minted())]
found["listed"] = [model["id"] for model in call(scoped, "/v1/models")[1]["data"]]
found["other model"] = [used(scoped, "/v1/embeddings", VECTORS), used(minted(), "/v1/embeddings", VECTORS)]
found["other route"] = used(scoped, "/v1/me")
found["expired"] = used(minted(models=[CHAT], exp=int(time.time()) - 1))
found["no end"] = used("jwt:" + jwt.encode({"sub": uid, "models": [CHAT]}, secret, algorithm="HS256", headers=header))
found["more than a year"] = used(minted(exp=int(time.time()) + 400 * 86_400))
found["another secret"] = used(minted(by=secret[:-1] + ("a" if secret[-1] != "a" else "b")))
found["another algorithm"] = [used(minted(algorithm="HS512")), used(minted(by=None, algorithm="none"))]
found["another account"] = used("jwt:" + jwt.encode({"sub": "nobody", "exp": hour}, secret, headers=header))
unsigned, signature = scoped.rsplit(".", 1)
payload = jwt.utils.base64url_encode(json.dumps({"sub": uid, "exp": hour}).encode()).decode()
found["another payload"] = used(".".join([unsigned.split(".")[0], payload, signature]))

# Four tokens cost USD 0.00008: the limit is met with the third answer at the latest, and never passed.
limit = 0.0002
tight = minted(models=[CHAT], spending_limit=limit)
answers = []
while len(answers) < 10 and (not answers or answers[-1] == [200]):
    answers.append(used(tight))
found["limit"] = [2 <= len(answers) <= 4, answers[-1]]
status, state = call(secret, "/v1/scoped-jwt?" + urllib.parse.urlencode({"jwtoken": tight}))
found["inspected"] = [status, state["models"], state["spending_limit"], state["spending_current"] <= limit, state["expires_at"] == hour]

# And the other way round: what the server signs is read and verified by the library.
wish = {"api_key_name": name, "models": [CHAT], "expires_at": hour, "spending_limit": 1}
token = call(os.environ["API_KEY"], "/v1/scoped-jwt", wish)[1]["token"]
claims = jwt.decode(token.removeprefix("jwt:"), secret, algorithms=["HS256"])
found["read"] = [
    jwt.get_unverified_header(token.removeprefix("jwt:")) == {"alg": "HS256", "typ": "JWT", **header},
    claims["sub"] == uid,
    claims["models"],
    claims["exp"] == hour,
    claims["spending_limit"],
]
found["server's own"] = used(token)

print(json.dumps(found))
