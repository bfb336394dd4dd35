import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { CliError } from "../../../cli/cli-error.ts";
import { findConnection } from "../../../cli/connection.ts";

const nowhere = { XDG_CONFIG_HOME: "/nonexistent", XDG_STATE_HOME: "/nonexistent" };

test("prefers a flag to STOKER_HOST, and STOKER_HOST to this machine", () => {
  const env = { ...nowhere, STOKER_HOST: "http://one:1" };
  expect(findConnection({ host: "http://two:2/" }, env, "/nonexistent").host).toBe("http://two:2");
  expect(findConnection({}, env, "/nonexistent").host).toBe("http://one:1");
  expect(findConnection({}, nowhere, "/nonexistent", "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test("accepts several control planes separated by commas, each a URL", () => {
  const found = findConnection({}, { ...nowhere, STOKER_HOST: "http://one:1/, http://two:2" }, "/nonexistent");
  expect([found.host, found.others]).toEqual(["http://one:1", ["http://two:2"]]);
  expect(() => findConnection({ host: "http://one:1,two" }, nowhere, "/nonexistent")).toThrow(CliError);
  // One of another machine among them, and this machine's key stays here.
  const mixed = findConnection({ host: "http://127.0.0.1:8080,http://evil.example" }, nowhere, process.cwd());
  expect(() => mixed.key()).toThrow(CliError);
});

test("uses STOKER_API_KEY as the key wherever it is set", () => {
  const env = { ...nowhere, STOKER_API_KEY: "stk_x" };
  expect(findConnection({ host: "http://elsewhere" }, env, "/nonexistent").key()).toBe("stk_x");
});

test("never uses the key of this machine's server for another host", () => {
  const connection = findConnection({ host: "https://api.example.com" }, nowhere, process.cwd());
  expect(() => connection.key()).toThrow(CliError);
});

test("reports a host that is no URL as wrong usage", () => {
  expect(() => findConnection({ host: "localhost:8080x y" }, nowhere, "/nonexistent")).toThrow(CliError);
});

/** A folder to work in whose data folder is held by the process `pid`. */
function folderWithLock(pid: number, url = "http://127.0.0.1:9123", others: readonly string[] = []): string {
  const cwd = mkdtempSync(join(tmpdir(), "stoker-cli-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  mkdirSync(join(cwd, ".stoker"));
  const lock = { pid, startedAt: "1", url, others };
  writeFileSync(join(cwd, ".stoker", "up.lock"), JSON.stringify(lock));
  writeFileSync(join(cwd, ".stoker", "admin.key"), "stk_here\n");
  return cwd;
}

test("finds an `up` on another port of this machine by its data folder, with its key", () => {
  const cwd = folderWithLock(process.pid);
  const found = findConnection({}, nowhere, cwd, "/nonexistent");
  expect([found.host, found.key()]).toEqual(["http://127.0.0.1:9123", "stk_here"]);
  const named = findConnection({}, { ...nowhere, STOKER_DATA: join(cwd, ".stoker") }, "/", "/nonexistent");
  expect([named.host, named.key()]).toEqual(["http://127.0.0.1:9123", "stk_here"]);
});

test("uses all control planes of an `up` on this machine, each with its key", () => {
  const cwd = folderWithLock(process.pid, "http://127.0.0.1:9123", ["http://127.0.0.1:9124"]);
  const found = findConnection({}, nowhere, cwd, "/nonexistent");
  expect([found.host, found.others]).toEqual(["http://127.0.0.1:9123", ["http://127.0.0.1:9124"]]);
  expect(findConnection({ host: "http://127.0.0.1:9124" }, nowhere, cwd, "/nonexistent").key()).toBe("stk_here");
  const strange = folderWithLock(process.pid, "http://127.0.0.1:9123", ["http://evil.example:9124"]);
  expect(findConnection({}, nowhere, strange, "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test("names the data folder of STOKER_DATA for a missing key if Stoker does not run there", () => {
  const found = findConnection({}, { ...nowhere, STOKER_DATA: "/nonexistent/data" }, "/", "/nonexistent");
  expect(() => found.key()).toThrow("Stoker is not running on the data folder /nonexistent/data (STOKER_DATA).");
  expect(() => findConnection({}, nowhere, "/", "/nonexistent").key()).toThrow(/'stoker login'\.$/);
});

test("prefers a named host to an `up` on this machine", () => {
  const cwd = folderWithLock(process.pid);
  const hostOf = (flag: string | undefined, env: NodeJS.ProcessEnv) =>
    findConnection({ host: flag }, { ...nowhere, ...env }, cwd, "/nonexistent").host;
  expect(hostOf("http://two:2", {})).toBe("http://two:2");
  expect(hostOf(undefined, { STOKER_HOST: "http://one:1" })).toBe("http://one:1");
  expect(hostOf(undefined, { STOKER_PORT: "8081" })).toBe("http://127.0.0.1:8081");
});

test("ignores the lock of an `up` that was killed, and a file that is no lock", () => {
  // More than any process has.
  const cwd = folderWithLock(2 ** 30);
  expect(findConnection({}, nowhere, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
  writeFileSync(join(cwd, ".stoker", "up.lock"), "half a loc");
  expect(findConnection({}, nowhere, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test.each([
  "http://evil.example",
  "http://127.0.0.1@evil.example",
  "http://127.0.0.1.evil.example",
  "http://127.evil.example",
  "http://10.0.0.5:8080",
  "https://10.0.0.5:8443",
  "//evil.example",
])("sends no key when the folder's lock names %s: the server is this machine's", (url) => {
  // Process 1 always runs, and is not ours to signal.
  const cwd = folderWithLock(1, url);
  const env = { ...nowhere, STOKER_API_KEY: "stk_mine" };
  expect(findConnection({}, env, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
  const named = { ...env, STOKER_DATA: join(cwd, ".stoker") };
  expect(findConnection({}, named, "/", "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test.each(["http://127.4.5.6:9000", "http://[::1]:9000", "http://localhost:9000"])(
  "recognises %s as this machine",
  (url) => {
    expect(findConnection({}, nowhere, folderWithLock(1, url), "/nonexistent").host).toBe(url);
  },
);

test("ignores a lock that another user wrote", (context) => {
  if (process.getuid?.() !== 0) context.skip("NOT PROVEN: only root can make a file another user's.");
  const cwd = folderWithLock(process.pid);
  chownSync(join(cwd, ".stoker", "up.lock"), 65_534, 65_534);
  expect(findConnection({}, nowhere, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
});
