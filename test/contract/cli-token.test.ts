// `stoker token` against the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { ada, apiKey } from "../fakes/ports.ts";
import { dayOfUse } from "../fakes/usage-log-ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (...args: string[]) => runCli(edge, apiKey, args);

it("creates a key limited to addresses and prints only the secret on stdout", async () => {
  const made = await stoker("token", "create", "ci", "--ip", "10.0.0.0/8", "--ip", "192.0.2.1");
  expect(made).toMatchObject({ out: "stk_made\n", code: 0 });
  expect(made.err).toContain(`Created ci (${ada.key})`);
  const json = JSON.parse((await stoker("--json", "token", "create", "ci", "--ip", "10.0.0.0/8")).out);
  expect(json).toMatchObject({ token: "stk_made", name: "ci", allowed_ips: ["10.0.0.0/8"] });
});

it("creates and changes a key with all its rules, and clears those named any or none", async () => {
  const rules = [
    "--model",
    "org/a",
    "--expires",
    "30d",
    "--rpm",
    "60",
    "--tpm",
    "90000",
    "--role",
    "inference",
    "--budget",
    "12.5",
  ];
  const made = JSON.parse((await stoker("--json", "token", "create", "ci", ...rules, "--trust-user-headers")).out);
  expect(made).toMatchObject({
    allowed_models: ["org/a"],
    requests_per_minute: 60,
    tokens_per_minute: 90_000,
    role: "inference",
    trusts_user_headers: true,
    monthly_limit: 12.5,
  });
  expect(made.expires_at - Date.now() / 1000).toBeGreaterThan(30 * 86_400 - 60);
  const changes: unknown[] = [];
  edge.deps.tokens.change = async (_caller, _id, change) => void changes.push(change) as undefined;
  const cleared = ["--ip", "any", "--model", "any", "--expires", "none", "--rpm", "none", "--tpm", "none"];
  await stoker("token", "update", ada.key, ...cleared, "--no-trust-user-headers");
  await stoker("token", "update", ada.key, "--role", "read");
  expect(changes).toEqual([
    {
      allowedIps: null,
      allowedModels: null,
      expiresAtMs: null,
      requestsPerMinute: null,
      tokensPerMinute: null,
      trustsUserHeaders: false,
    },
    { role: "read" },
  ]);
});

it("lists masked keys as a table or JSON", async () => {
  expect((await stoker("token", "list")).out).toMatch(
    /^ID +NAME +ROLE +LAST USED +EXPIRES\n\S+ +auto +admin +never +never$/m,
  );
  const listed = await stoker("token", "list", "--output", "wide");
  expect(listed.out).toMatch(/^ID +NAME +ROLE +LAST USED +EXPIRES +KEY +CREATED +MODELS +LIMITS +ALLOWED FROM\n/);
  expect(listed.out).toMatch(/admin +never +never +\S+ +2026-08-06 +any +none +anywhere/);
  expect(listed.out).not.toContain(apiKey);
  expect(JSON.parse((await stoker("--json", "token", "list")).out)).toMatchObject([
    { token_id: ada.key, name: "auto" },
  ]);
});

it("lists the minute in which a key expires", async () => {
  const list = edge.deps.tokens.list;
  edge.deps.tokens.list = async (account) =>
    (await list(account)).map((key) => ({ ...key, expiresAtMs: Date.UTC(2026, 10, 24, 21, 38, 5) }));
  try {
    expect((await stoker("token", "list")).out).toContain("2026-11-24T21:38Z");
  } finally {
    edge.deps.tokens.list = list;
  }
});

it("revokes a key by its id only", async () => {
  expect(await stoker("token", "delete", ada.key, "--yes")).toMatchObject({
    out: `Revoked auto (${ada.key}) and all tokens it signed\n`,
    code: 0,
  });
  expect((await stoker("token", "delete", "unknown", "--yes")).code).toBe(4);
  expect((await stoker("token", "delete", apiKey, "--yes")).code).toBe(4);
});

it("signs a restricted token and names unknown values", async () => {
  const requests: unknown[] = [];
  const mint = edge.deps.scopedJwts.mint;
  edge.deps.scopedJwts.mint = (account, request, act) => {
    requests.push(request);
    return mint(account, request, act);
  };
  const restricted = ["--models", "org/a, org/b", "--expires", "1h", "--limit", "5"];
  expect(await stoker("token", "mint", "--key", "auto", ...restricted)).toMatchObject({ out: "jwt:made\n", code: 0 });
  expect(JSON.parse((await stoker("--json", "token", "mint", "--key", "auto")).out)).toEqual({ token: "jwt:made" });
  const more = ["--model", "org/a", "--model", "org/b"];
  expect((await stoker("token", "jwt", "create", "--key", "auto", ...more)).out).toBe("jwt:made\n");
  expect(requests).toEqual([
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

it("shows the scope and spending of a token", async () => {
  const told = "all models, until 2026-09-21T14:13:20Z, 0.000000001 USD spent, limit 2.5 USD\n";
  expect((await stoker("token", "jwt", "get", "jwt:known")).out).toBe(told);
  expect((await stoker("token", "jwt", "get", "jwt:unknown")).code).toBe(4);
});

it("shows the daily usage of one key only", async () => {
  const days = ["--from", dayOfUse, "--to", dayOfUse];
  expect((await stoker("token", "usage", ada.key, ...days)).out).toMatch(
    /^DAY .*\n2026-02-03 +auto +1 +6\+3 +0\.000000\n$/,
  );
  const unknown = await stoker("token", "usage", "another", ...days);
  expect(unknown).toMatchObject({ out: "", code: 4 });
  expect(unknown.err).toContain("stoker token list");
});

it("shows no days for an unused key", async () => {
  const unused = ["--from", "2020-01-01", "--to", "2020-01-02"];
  expect(await stoker("token", "usage", ada.key, ...unused)).toMatchObject({
    out: "No usage in this period.\n",
    code: 0,
  });
});
