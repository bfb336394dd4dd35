// Code that verifies webhook signatures with the standard library only.
export const verifySnippets = {
  TypeScript: `import { createHmac, timingSafeEqual } from "node:crypto";

// body: raw bytes, before parsing; headers: lower-case names.
export function isGenuine(secret: string, headers: Record<string, string | undefined>, body: Uint8Array): boolean {
  const { "webhook-id": id = "", "webhook-timestamp": at = "", "webhook-signature": signatures = "" } = headers;
  // Reject timestamps more than five minutes off, to prevent replay.
  if (!(Math.abs(Date.now() / 1000 - Number(at)) <= 300)) return false;
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const expected = createHmac("sha256", key).update(id + "." + at + ".").update(body).digest();
  return signatures.split(" ").some((one) => {
    const given = Buffer.from(one.replace("v1,", ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
// Process each webhook-id once: a delivery may be repeated.
`,

  Python: `import base64, hashlib, hmac, time

# body: raw bytes, before parsing; headers: lower-case names.
def is_genuine(secret: str, headers: dict, body: bytes) -> bool:
    call, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    # Reject timestamps more than five minutes off, to prevent replay.
    if not at.isdecimal() or abs(time.time() - int(at)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = hmac.new(key, f"{call}.{at}.".encode() + body, hashlib.sha256).digest()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one.encode(), b"v1," + base64.b64encode(expected)) for one in given)
# Process each webhook-id once: a delivery may be repeated.
`,
} as const;
