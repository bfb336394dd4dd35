import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeToken, kidOf, mintCommand, signingExamples } from "../../../console/domain/scoped-token.ts";
import { isCurrent, readJwt, signJwt, verifyJwt } from "../../../control-plane/accounts/jwt-format.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { fromUsd } from "../../../proto/money.ts";

const account = "u:1" as AccountId;
const secret = "stk_secret";
const signer = { account, keyName: "ci: Zürich", secret };
const terms = { account, keyName: signer.keyName, models: ["org/a", "org/b"], lifeSeconds: 3600, limit: 0.5 };

describe("a scoped token", () => {
  it("is decoded with its key, account and expiry", async () => {
    const token = await signJwt(signer, { exp: 1_800_000_000, models: ["org/a"] });
    expect(decodeToken(token)).toMatchObject({
      account,
      keyName: signer.keyName,
      expiresAt: 1_800_000_000,
      claims: { sub: account, models: ["org/a"] },
      header: { alg: "HS256", kid: kidOf(account, signer.keyName) },
    });
    expect(decodeToken(` ${token.replace("jwt:", "")}\n`)?.keyName).toBe(signer.keyName);
  });

  it.each(["", "jwt:", "stk_secret", "a.b", "a.b.c", "jwt:e30.WzFd.c", "e30.e30.c.d"])("is not %j", (text) =>
    expect(decodeToken(text)).toBeUndefined(),
  );

  it("of another issuer names no key", () => {
    expect(decodeToken("e30.e30.c")).toMatchObject({ account: undefined, keyName: undefined, expiresAt: undefined });
  });

  it("is made by a command that names the same terms", () => {
    expect(mintCommand(terms)).toBe(
      "stoker token mint --key 'ci: Zürich' --model org/a --model org/b --expires 1h --limit 0.5",
    );
  });
});

describe("the code that signs a token", () => {
  // Where Node finds the library.
  const cwd = join(import.meta.dirname, "../../..");
  const printed = (code: string, command: string, ...options: readonly string[]): string => {
    const env = { ...process.env, STOKER_API_KEY: secret };
    const ran = spawnSync(command, options, { cwd, env, input: code, encoding: "utf8" });
    expect(ran.status, ran.stderr).toBe(0);
    return ran.stdout.trim();
  };
  const expectAccepted = async (token: string) => {
    const read = readJwt(token);
    expect(read).toMatchObject({ account, keyName: signer.keyName });
    const claims = read && (await verifyJwt(read, secret));
    expect(claims).toMatchObject({ models: ["org/a", "org/b"], limit: fromUsd(0.5) });
    expect(claims && isCurrent(claims, Date.now())).toBe(true);
  };

  it("makes one that the server accepts, in TypeScript", () =>
    expectAccepted(printed(signingExamples(terms).TypeScript, process.execPath, "--input-type=module-typescript")));

  const hasPyJwt = spawnSync("python3", ["-c", "import jwt"]).status === 0;
  if (!hasPyJwt) console.warn("\n*** NOT PROVEN: that Python's code signs a scoped token; there is no PyJWT here\n");
  it.runIf(hasPyJwt)("makes one that the server accepts, in Python", () =>
    expectAccepted(printed(signingExamples(terms).Python, "python3", "-")),
  );
});
