import { describe, expect, it } from "vitest";
import { redact } from "../../../../proto/redact.ts";

describe("a line that leaves this host", () => {
  it.each([
    ["Authorization: Bearer abc.def-ghi_123", "abc.def"],
    [`{"key":"stk_${"a1".repeat(20)}"}`, "a1a1a1"],
    ["token hf_abcdefghij in the clear", "abcdefghij"],
    ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GK"],
    ["user jwt:eyJhbGciOi.eyJzdWIi.sig-nature came", "eyJ"],
  ])("keeps its sense and loses its secret: %s", (line, secret) => {
    const text = redact(line);
    expect(text).not.toContain(secret);
    expect(text).toContain("[secret]");
  });

  it("loses it also behind an escaped line break", () => {
    expect(redact(`{"msg":"key:\\nstk_${"a1".repeat(20)}"}`)).not.toContain("a1a1");
  });

  it("is otherwise unchanged", () => {
    const line = "loaded model owner/shelf_life_of_a_book in 3 s";
    expect(redact(line)).toBe(line);
  });
});
