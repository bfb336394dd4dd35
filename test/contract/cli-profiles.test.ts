// Several servers in one file: `stoker auth`.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
const home = mkdtempSync(join(tmpdir(), "stoker-profiles-"));
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(async () => {
  await edge?.close();
  rmSync(home, { recursive: true, force: true });
});

/** Without STOKER_HOST and STOKER_API_KEY. */
const stoker = (args: readonly string[], input?: string, host = "") =>
  runCli(edge, "", args, { input, env: { STOKER_HOST: host, STOKER_API_KEY: "", XDG_CONFIG_HOME: home } });

it("stores a key in a named profile, lists all and switches between them", async () => {
  const set = (name: string, key: string) =>
    stoker(["auth", "set-token", "--profile", name, "--host", edge.url], `${key}\n`);
  expect((await set("work", apiKey)).err).toContain("The key is stored in profile work, now in use");
  expect((await set("fleet", adminKey)).code).toBe(0);
  expect((await set("wrong", "stk_unknown1")).code).toBe(3);

  const list = await stoker(["auth", "list"]);
  expect(list.out).toMatch(/^PROFILE +SERVER +KEY\nwork +http\S+ +\.\.\.\S{4}\nfleet \* +http\S+ +\.\.\.\S{4}\n$/);
  expect(list.out).not.toContain(apiKey);

  const status = async (...flags: string[]) => JSON.parse((await stoker(["auth", "status", "--json", ...flags])).out);
  expect(await status()).toMatchObject({ profile: "fleet", hosts: [edge.url], account: { is_admin: true } });
  expect(await status("--profile", "work")).toMatchObject({ profile: "work", account: { is_admin: false } });
  expect((await stoker(["auth", "use", "work"])).out).toBe(`Using profile work: ${edge.url}\n`);
  expect((await stoker(["auth", "token"])).out).toBe(`${apiKey}\n`);
  const text = await stoker(["auth", "status"]);
  expect(text.out).toMatch(/^profile {2}work\nserver {3}http.*\nkey {6}\.\.\.\S{4} from .*config\.json\naccount {2}/);
}, 60_000);

it("names the profiles if one does not exist, and the source of a key that is rejected", async () => {
  expect(await stoker(["auth", "use", "prod"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("Profile prod not found. Profiles: work, fleet."),
  });
  expect(await stoker(["deploy", "list", "--profile", "prod"])).toMatchObject({ code: 2, out: "" });
  const rejected = await runCli(edge, "stk_unknown1", ["auth", "status"]);
  expect(rejected).toMatchObject({ code: 3, err: expect.stringContaining("The key is from STOKER_API_KEY.") });
}, 60_000);

it("removes the profile in use with its key at logout", async () => {
  const { code, err } = await stoker(["logout"]);
  expect(code, err).toBe(0);
  expect(err).toContain("Removed profile work.\nLeft: fleet. Choose one: stoker auth use NAME\n");
  expect(readFileSync(join(home, "stoker", "config.json"), "utf8")).not.toContain(apiKey);
  // Another machine: for a server on this one, the key that `up` left in this clone would count.
  const elsewhere = await stoker(["deploy", "list"], undefined, "http://stoker.invalid");
  expect(elsewhere).toMatchObject({ code: 3, err: expect.stringContaining("No API key") });
}, 60_000);
