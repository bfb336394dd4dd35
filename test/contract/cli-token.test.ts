// `stoker token` against the real edge.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { ada, apiKey } from "../fakes/ports.ts";
import { dayOfUse } from "../fakes/usage-log-ports.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

async function stoker(...args: string[]) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../cli/main.ts"), ...args], {
    env: { ...process.env, STOKER_HOST: edge.url, STOKER_API_KEY: apiKey },
  });
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { out, err, code: await exited };
}

it("makes a key: the secret alone on stdout, closed to the addresses that were named", async () => {
  const made = await stoker("token", "create", "ci", "--ip", "10.0.0.0/8", "--ip", "192.0.2.1");
  expect(made).toMatchObject({ out: "stk_made\n", code: 0 });
  expect(made.err).toContain(`ci (${ada.key}) is made`);
  const json = JSON.parse((await stoker("--json", "token", "create", "ci", "--ip", "10.0.0.0/8")).out);
  expect(json).toMatchObject({ token: "stk_made", name: "ci", allowed_ips: ["10.0.0.0/8"] });
});

it("lists keys masked, as a table or as the API answers", async () => {
  const listed = await stoker("token", "list");
  expect(listed.out).toMatch(/^ID +NAME +KEY +MADE +LAST USED +FROM\n/);
  expect(listed.out).toContain("auto");
  expect(listed.out).toMatch(/2026-08-06 +never +anywhere/);
  expect(listed.out).not.toContain(apiKey);
  expect(JSON.parse((await stoker("--json", "token", "list")).out)).toMatchObject([
    { token_id: ada.key, name: "auto" },
  ]);
});

it("ends a key by its id, and nothing by anything else", async () => {
  expect(await stoker("token", "delete", ada.key)).toMatchObject({
    out: `auto (${ada.key}) is ended, with every token it signed\n`,
    code: 0,
  });
  expect((await stoker("token", "delete", "unknown")).code).toBe(4);
  expect((await stoker("token", "delete", apiKey)).code).toBe(4);
});

it("signs a token that is restricted as it was told, and names what it does not know", async () => {
  const wishes: unknown[] = [];
  const mint = edge.deps.scopedJwts.mint;
  edge.deps.scopedJwts.mint = (account, wish, act) => {
    wishes.push(wish);
    return mint(account, wish, act);
  };
  const restricted = ["--models", "org/a, org/b", "--expires", "1h", "--limit", "5"];
  expect(await stoker("token", "mint", "--key", "auto", ...restricted)).toMatchObject({ out: "jwt:made\n", code: 0 });
  expect(JSON.parse((await stoker("--json", "token", "mint", "--key", "auto")).out)).toEqual({ token: "jwt:made" });
  const more = ["--model", "org/a", "--model", "org/b"];
  expect((await stoker("token", "jwt", "create", "--key", "auto", ...more)).out).toBe("jwt:made\n");
  expect(wishes).toEqual([
    { apiKeyName: "auto", models: ["org/a", "org/b"], expiresDeltaS: 3_600, limitUsd: 5 },
    { apiKeyName: "auto" },
    { apiKeyName: "auto", models: ["org/a", "org/b"] },
  ]);
  const unknown = await stoker("token", "mint", "--key", "other");
  expect(unknown.code).toBe(4);
  expect(unknown.err).toContain("other");
  expect((await stoker("token", "mint")).code).toBe(2);
  expect((await stoker("token", "mint", "--key", "auto", "--expires", "soon")).err).toContain("2h or 7d");
  // Not silently a token for any model.
  expect((await stoker("token", "mint", "--key", "auto", "--models", " , ")).code).toBe(2);
});

it("says what a token may do and has spent, by the key that signed it", async () => {
  const told = "any model, until 2026-09-21T14:13:20Z, 0.000000001 USD spent, of 2.5 USD\n";
  expect((await stoker("token", "jwt", "inspect", "jwt:known")).out).toBe(told);
  expect((await stoker("token", "jwt", "inspect", "jwt:unknown")).code).toBe(4);
});

it("tells what one key used each day, and nothing of others", async () => {
  const days = ["--from", dayOfUse, "--to", dayOfUse];
  expect((await stoker("token", "usage", ada.key, ...days)).out).toMatch(
    /^DAY .*\n2026-02-03 +auto +1 +6\+3 +0\.000000\n$/,
  );
  const unknown = await stoker("token", "usage", "another", ...days);
  expect(unknown).toMatchObject({ out: "", code: 4 });
  expect(unknown.err).toContain("stoker token list");
});

it("a key that was not used has no days, which is no error", async () => {
  const unused = ["--from", "2020-01-01", "--to", "2020-01-02"];
  expect(await stoker("token", "usage", ada.key, ...unused)).toMatchObject({ out: "None.\n", code: 0 });
});
