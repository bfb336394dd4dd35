// The CLI's commands about passwords and second factors against the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { ada, adminKey, apiKey, operator } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (key: string, args: readonly string[], input?: string) => runCli(edge, key, args, { input });

it("lists second factors and the number of unused recovery codes", async () => {
  const { out, err } = await stoker(apiKey, ["auth", "factors"]);
  expect(out).toMatch(/totp +telephone +2026-08-06T/);
  expect(err).toContain("9 recovery codes left.");
});

it("renames a second factor by name and rejects an unknown one", async () => {
  const renamed: unknown[] = [];
  const { rename } = edge.deps.factors;
  edge.deps.factors.rename = (actor, id, name) => {
    renamed.push([actor.account, id, name]);
    return rename(actor, id, name);
  };
  const done = await stoker(apiKey, ["auth", "rename-factor", "telephone", "old telephone"]);
  expect(done).toMatchObject({ code: 0, out: "factor-of-ada renamed to old telephone.\n" });
  const unknown = await stoker(apiKey, ["auth", "rename-factor", "laptop", "x"]);
  expect(unknown.code).not.toBe(0);
  expect(renamed).toEqual([
    [ada.account, "factor-of-ada", "old telephone"],
    [ada.account, "laptop", "x"],
  ]);
});

it("sets a password from stdin and prints why one is rejected", async () => {
  const set = await stoker(apiKey, ["auth", "set-password"], "correct horse battery\n");
  expect(set).toMatchObject({ code: 0, err: expect.stringContaining(`Sign in as ${ada.email}`) });
  const short = await stoker(apiKey, ["auth", "set-password"], "short\n");
  expect(short.code).not.toBe(0);
  expect(short.err).toContain("at least 12 characters");
});

it("prints a link that signs a browser in", async () => {
  const { code, out, err } = await stoker(apiKey, ["auth", "link"]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^https:\/\/\S+\/login\/link\?ticket=\S+\n$/)]);
  expect(err).toContain("it works once");
});

it("shows and sets the second-factor policy", async () => {
  const set: unknown[] = [];
  edge.deps.factors.setPolicy = async (requiredFor, act) => void set.push([requiredFor, act.by, act.note]);
  expect((await stoker(adminKey, ["admin", "sign-in", "get"])).out).toBe("second factor required for: none\n");
  const args = ["admin", "sign-in", "update", "--require-second-factor", "all", "--note", "audit"];
  expect((await stoker(adminKey, args)).out).toBe("second factor required for: all\n");
  expect(set).toEqual([["all", operator.account, "audit"]]);
  expect((await stoker(adminKey, [...args.slice(0, 4), "some"])).code).not.toBe(0);
});

it("removes the second factors of an account", async () => {
  const reset: unknown[] = [];
  edge.deps.factors.reset = async (account) => reset.push(account);
  expect((await stoker(adminKey, ["admin", "sign-in", "reset", ada.account, "--yes"])).out).toBe(
    "1 second factor removed\n",
  );
  expect(reset).toEqual([ada.account]);
});
