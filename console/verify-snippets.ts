// How a receiver tells a genuine webhook call from any other: with nothing but what the language comes with.
export const verifySnippets = {
  TypeScript: `import { createHmac, timingSafeEqual } from "node:crypto";

// body: the bytes as they came, before anything parses them; headers: names in lower case.
export function isGenuine(secret: string, headers: Record<string, string | undefined>, body: Uint8Array): boolean {
  const { "webhook-id": id = "", "webhook-timestamp": at = "", "webhook-signature": signatures = "" } = headers;
  // More than five minutes off: somebody may be sending it again.
  if (!(Math.abs(Date.now() / 1000 - Number(at)) <= 300)) return false;
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const wanted = createHmac("sha256", key).update(id + "." + at + ".").update(body).digest();
  return signatures.split(" ").some((one) => {
    const given = Buffer.from(one.replace("v1,", ""), "base64");
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}
// Take each webhook-id once: a call may come again.
`,

  Python: `import base64, hashlib, hmac, time

# body: the bytes as they came, before anything parses them; headers: names in lower case.
def is_genuine(secret: str, headers: dict, body: bytes) -> bool:
    call, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    # More than five minutes off: somebody may be sending it again.
    if not at.isdecimal() or abs(time.time() - int(at)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = hmac.new(key, f"{call}.{at}.".encode() + body, hashlib.sha256).digest()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one.encode(), b"v1," + base64.b64encode(wanted)) for one in given)
# Take each webhook-id once: a call may come again.
`,
} as const;
