// The real `stoker` against the real HTTP edge: login and logout as a person does them.
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { cliLoginTimedOut, cliLoginUsed } from "../../../control-plane/accounts/cli-login.ts";
import { createHttp } from "../../../control-plane/http/core/create-http.ts";
import { listenOn } from "../../../control-plane/http/core/listen.ts";
import { ada, apiKey, fakePorts } from "../../fakes/ports.ts";

const root = join(import.meta.dirname, "../../..");

async function terminalOf(ports: ReturnType<typeof fakePorts>) {
  const app = await createHttp(ports.deps);
  const host = `http://127.0.0.1:${await listenOn(app, { host: "127.0.0.1", port: 0 })}`;
  const config = mkdtempSync(join(tmpdir(), "stoker-cli-"));
  onTestFinished(async () => {
    await app.close();
    rmSync(config, { recursive: true, force: true });
  });
  const env = { PATH: process.env["PATH"], HOME: config, XDG_CONFIG_HOME: config };
  const stoker = (...words: string[]) =>
    promisify(execFile)(process.execPath, [join(root, "cli/main.ts"), "--host", host, ...words], { env, cwd: config });
  return { host, stoker, profile: join(config, "stoker", "config.json") };
}

it("login stores the key it was given, for its owner alone, and asks again when a wait ran out", async () => {
  const ports = fakePorts();
  const asked: string[] = [];
  ports.deps.cliLogins.wait = (loginId) => {
    asked.push(loginId);
    return asked.length === 1 ? Promise.reject(cliLoginTimedOut()) : Promise.resolve(apiKey);
  };
  const { host, stoker, profile } = await terminalOf(ports);
  const { stdout, stderr } = await stoker("login");
  expect(asked[0]).toMatch(/^[\w-]{32}$/);
  expect(asked).toEqual([asked[0], asked[0]]);
  expect(stderr).toContain(`${host}/login?cli=${asked[0]}`);
  const page = await (
    await fetch(`${host}/login?cli=${asked[0]}`, { headers: { cookie: "session=cookie-of-ada" } })
  ).text();
  const code = /<code>(.*)<\/code>/.exec(page)?.[1];
  expect(code).toMatch(/^.{4}-.{4}$/);
  expect(stderr).toContain(`the code ${code}`);
  expect(stderr).toContain(`Signed in as ${ada.displayName}`);
  expect(stdout + stderr).not.toContain(apiKey);
  expect(JSON.parse(readFileSync(profile, "utf8"))).toEqual({
    current: "default",
    profiles: { default: { hosts: [host], key: apiKey } },
  });
  expect(statSync(profile).mode & 0o777).toBe(0o600);

  const out = await stoker("logout");
  expect(out.stderr).toContain("Removed profile default.");
  expect(readFileSync(profile, "utf8")).not.toContain(apiKey);
  expect((await stoker("logout")).stderr).toContain("No key is stored");
});

it("login ends with the server's sentence when the login was answered to somebody else", async () => {
  const ports = fakePorts();
  ports.deps.cliLogins.wait = () => Promise.reject(cliLoginUsed());
  const { stoker, profile } = await terminalOf(ports);
  const failure = await stoker("login").catch((error) => error);
  expect(failure.code).toBe(4);
  expect(failure.stderr).toContain("Run `stoker login` again");
  expect(existsSync(profile)).toBe(false);
});
