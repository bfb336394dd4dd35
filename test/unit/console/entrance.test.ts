import { describe, expect, it } from "vitest";
import { afterEntrance, afterProvider } from "../../../console/domain/entrance.ts";
import { returnPath } from "../../../control-plane/identity/return-path.ts";

const base = "/console";
const invitation = "?ticket=abc_123";

describe("a visitor with an invitation", () => {
  it("returns to it from the sign-in pages and the page itself, also through an identity provider", () => {
    expect(afterEntrance(invitation, base)).toBe("/console/join?ticket=abc_123");
    for (const page of ["/console/sign-in", "/console/sign-up", "/console/sign-in/", "/console/join"]) {
      const path = afterProvider(page, invitation, base);
      expect(path).toBe("/console/join?ticket=abc_123");
      expect(returnPath(path)).toBe(path);
    }
  });
});

it("leads other visitors to the console, the page that they opened, or their command line", () => {
  expect(afterProvider("/console/sign-in", "", base)).toBe("/console");
  expect(afterProvider("/console/billing", "?month=2026-01", base)).toBe("/console/billing?month=2026-01");
  expect(afterProvider("/console/sign-in", "?cli=a/b", base)).toBe("/login?cli=a%2Fb");
  expect(afterEntrance("?cli=x", base)).toBe("/console/security?cli=x");
});
