import { describe, expect, it } from "vitest";
import { makeTotpSecret, totpStep } from "../../../../control-plane/accounts/totp.ts";

// RFC 6238, appendix B: the secret `12345678901234567890` in base32, and the last six digits of its SHA-1 codes.
const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

describe("a TOTP code", () => {
  it.each([
    [59, "287082"],
    [1_111_111_109, "081804"],
    [1_111_111_111, "050471"],
    [1_234_567_890, "005924"],
    [2_000_000_000, "279037"],
  ])("is the one of RFC 6238 at %i s", (seconds, code) => {
    expect(totpStep(secret, code, seconds * 1000)).toBe(BigInt(Math.floor(seconds / 30)));
  });

  it("is accepted one step early or late, but not two", () => {
    const [code, atMs] = ["005924", 1_234_567_890_000];
    const step = BigInt(Math.floor(1_234_567_890 / 30));
    for (const shiftMs of [-30_000, 0, 30_000]) expect(totpStep(secret, code, atMs + shiftMs)).toBe(step);
    for (const shiftMs of [-60_000, 60_000]) expect(totpStep(secret, code, atMs + shiftMs)).toBeUndefined();
  });

  it("in another form is refused", () => {
    for (const code of ["", "5924", "0059240", "abcdef", "٠٠٥٩٢٤"])
      expect(totpStep(secret, code, 1_234_567_890_000)).toBeUndefined();
  });

  it("comes from a 160-bit secret in an otpauth URI", () => {
    const made = makeTotpSecret("Stoker", "ada@example.com");
    expect(made.secret).toMatch(/^[A-Z2-7]{32}$/);
    expect(made.uri).toContain(`secret=${made.secret}`);
    expect(made.uri).toMatch(/^otpauth:\/\/totp\/Stoker:ada%40example\.com\?/);
    expect(made.qrSvg).toMatch(/^<svg /);
  });
});
