import { describe, expect, it } from "vitest";
import { checkNewPassword } from "../../../../control-plane/accounts/password-rule.ts";

const known = ["ada@analytical-engines.example", "ada-lovelace"];
const codeOf = (password: string) =>
  checkNewPassword(password, known).then(
    () => "taken",
    (error) => error.code as string,
  );

describe("a new password", () => {
  it.each(["", "short", "eleven char", "😀".repeat(11)])(
    "of fewer than 12 characters is refused: %s",
    async (password) => {
      expect(await codeOf(password)).toBe("weak_password");
    },
  );

  it.each([
    "password1234",
    "passwordpassword",
    "123456789012",
    "qwertyuiop[]",
    "aaaaaaaaaaaaaaaa",
    "iloveyou1234",
    "Password2024!",
    "ada@analytical-engines.example",
    "ada-lovelace1",
    "a".repeat(1024),
  ])("that is guessed early is refused: %s", async (password) => {
    expect(await codeOf(password)).toBe("weak_password");
  });

  it.each([
    "correct horse",
    "correct horse battery staple",
    "Tr0ub4dor&3xyz",
    "wohl temperiertes klavier",
    "日本語のパスワード文字列です",
    `${"x9 K".repeat(3)}vQ7#mN2$pL5${"z".repeat(1000)}`,
  ])("that is hard to guess is taken: %s", async (password) => {
    expect(await codeOf(password)).toBe("taken");
  });
});
