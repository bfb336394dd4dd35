import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { CliError } from "../../../cli/cli-error.ts";
import { findConnection } from "../../../cli/connection.ts";

const nowhere = { XDG_CONFIG_HOME: "/nonexistent" };

test("a flag wins over STOKER_HOST, which wins over this machine", () => {
  const env = { ...nowhere, STOKER_HOST: "http://one:1" };
  expect(findConnection("http://two:2/", env, "/nonexistent").host).toBe("http://two:2");
  expect(findConnection(undefined, env, "/nonexistent").host).toBe("http://one:1");
  expect(findConnection(undefined, nowhere, "/nonexistent", "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test("several control planes of one installation are named by commas, and each must be a URL", () => {
  const found = findConnection(undefined, { ...nowhere, STOKER_HOST: "http://one:1/, http://two:2" }, "/nonexistent");
  expect([found.host, found.others]).toEqual(["http://one:1", ["http://two:2"]]);
  expect(() => findConnection("http://one:1,two", nowhere, "/nonexistent")).toThrow(CliError);
  // One of another machine among them, and this machine's key stays here.
  const mixed = findConnection("http://127.0.0.1:8080,http://evil.example", nowhere, process.cwd());
  expect(() => mixed.key()).toThrow(CliError);
});

test("STOKER_API_KEY is the key wherever it is set", () => {
  const env = { ...nowhere, STOKER_API_KEY: "stk_x" };
  expect(findConnection("http://elsewhere", env, "/nonexistent").key()).toBe("stk_x");
});

test("the key of this machine's server is never taken for another host", () => {
  const connection = findConnection("https://api.example.com", nowhere, process.cwd());
  expect(() => connection.key()).toThrow(CliError);
});

test("a host that is no URL is wrong usage", () => {
  expect(() => findConnection("localhost:8080x y", nowhere, "/nonexistent")).toThrow(CliError);
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

test("an `up` that runs here on another port is found by its data folder, with its key", () => {
  const cwd = folderWithLock(process.pid);
  const found = findConnection(undefined, nowhere, cwd, "/nonexistent");
  expect([found.host, found.key()]).toEqual(["http://127.0.0.1:9123", "stk_here"]);
  const named = findConnection(undefined, { ...nowhere, STOKER_DATA: join(cwd, ".stoker") }, "/", "/nonexistent");
  expect([named.host, named.key()]).toEqual(["http://127.0.0.1:9123", "stk_here"]);
});

test("all control planes of an `up` that runs here are asked, and any of them has its key", () => {
  const cwd = folderWithLock(process.pid, "http://127.0.0.1:9123", ["http://127.0.0.1:9124"]);
  const found = findConnection(undefined, nowhere, cwd, "/nonexistent");
  expect([found.host, found.others]).toEqual(["http://127.0.0.1:9123", ["http://127.0.0.1:9124"]]);
  expect(findConnection("http://127.0.0.1:9124", nowhere, cwd, "/nonexistent").key()).toBe("stk_here");
  const strange = folderWithLock(process.pid, "http://127.0.0.1:9123", ["http://evil.example:9124"]);
  expect(findConnection(undefined, nowhere, strange, "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test("a missing key names the data folder of STOKER_DATA if Stoker does not run there", () => {
  const found = findConnection(undefined, { ...nowhere, STOKER_DATA: "/nonexistent/data" }, "/", "/nonexistent");
  expect(() => found.key()).toThrow("Stoker is not running on the data folder /nonexistent/data (STOKER_DATA).");
  expect(() => findConnection(undefined, nowhere, "/", "/nonexistent").key()).toThrow(/'stoker login'\.$/);
});

test("an `up` that runs here gives way to what is named", () => {
  const cwd = folderWithLock(process.pid);
  const hostOf = (flag: string | undefined, env: NodeJS.ProcessEnv) =>
    findConnection(flag, { ...nowhere, ...env }, cwd, "/nonexistent").host;
  expect(hostOf("http://two:2", {})).toBe("http://two:2");
  expect(hostOf(undefined, { STOKER_HOST: "http://one:1" })).toBe("http://one:1");
  expect(hostOf(undefined, { STOKER_PORT: "8081" })).toBe("http://127.0.0.1:8081");
});

test("the lock of an `up` that was killed, or that is no lock, says nothing", () => {
  // More than any process has.
  const cwd = folderWithLock(2 ** 30);
  expect(findConnection(undefined, nowhere, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
  writeFileSync(join(cwd, ".stoker", "up.lock"), "half a loc");
  expect(findConnection(undefined, nowhere, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test.each([
  "http://evil.example",
  "http://127.0.0.1@evil.example",
  "http://127.0.0.1.evil.example",
  "http://127.evil.example",
  "http://10.0.0.5:8080",
  "https://10.0.0.5:8443",
  "//evil.example",
])("a folder that names %s in its lock gets no key: the server asked is this machine's", (url) => {
  // Process 1 always runs, and is not ours to signal.
  const cwd = folderWithLock(1, url);
  const env = { ...nowhere, STOKER_API_KEY: "stk_mine" };
  expect(findConnection(undefined, env, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
  const named = { ...env, STOKER_DATA: join(cwd, ".stoker") };
  expect(findConnection(undefined, named, "/", "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test.each(["http://127.4.5.6:9000", "http://[::1]:9000", "http://localhost:9000"])("%s is this machine", (url) => {
  expect(findConnection(undefined, nowhere, folderWithLock(1, url), "/nonexistent").host).toBe(url);
});

test("a lock that another user wrote is not believed", (context) => {
  if (process.getuid?.() !== 0) context.skip("NOT PROVEN: only root can make a file another user's.");
  const cwd = folderWithLock(process.pid);
  chownSync(join(cwd, ".stoker", "up.lock"), 65_534, 65_534);
  expect(findConnection(undefined, nowhere, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
});
