import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { findConnection } from "../../../cli/connection.ts";
import { dataFolders, notesFolder, runningFirst } from "../../../cli/data-folders.ts";
import { agentFolders } from "../../../cli/local-agent.ts";
import { hostEnvironment } from "../../../cli/on-host.ts";
import { noteFolder, takeLock } from "../../../scripts/supervisor/lock.ts";

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "stoker-folders-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** A state folder and an `up` of this process on a data folder that no default names. */
function runningElsewhere() {
  const env = { XDG_STATE_HOME: folder(), XDG_CONFIG_HOME: "/nonexistent" };
  const data = folder();
  mkdirSync(join(data, "secrets"));
  mkdirSync(join(data, "agents", "1"), { recursive: true });
  writeFileSync(join(data, "agents", "1", "agent.json"), "{}");
  writeFileSync(join(data, "secrets", "postgres.password"), "pw\n");
  writeFileSync(join(data, "ports.json"), '{"postgres":5433}');
  writeFileSync(join(data, "admin.key"), "stk_elsewhere\n");
  const unlock = takeLock(data, "http://127.0.0.1:9123");
  const removeNote = noteFolder(data, env);
  const stop = () => {
    removeNote();
    unlock();
  };
  return { env, data, stop };
}

describe("an `up` with a data folder of its own", () => {
  it("is found by commands for server, key, database and agents until it stops", () => {
    const { env, data, stop } = runningElsewhere();
    const cwd = folder();
    const found = findConnection({}, env, cwd, "/nonexistent");
    expect([found.host, found.key(), found.dataFolder]).toEqual(["http://127.0.0.1:9123", "stk_elsewhere", data]);
    expect(hostEnvironment(env, undefined, cwd)["STOKER_SECRETS_DIR"]).toBe(join(data, "secrets"));
    expect(agentFolders(undefined, env, cwd)).toContain(join(data, "agents", "1"));
    stop();
    expect(findConnection({}, env, cwd, "/nonexistent").host).toBe("http://127.0.0.1:8080");
    expect(readdirSync(notesFolder(env))).toEqual([]);
  });

  it("comes before a default folder whose `up` was stopped, and after one that runs", () => {
    const { env, data, stop } = runningElsewhere();
    onTestFinished(stop);
    const cwd = folder();
    const usual = join(cwd, ".stoker");
    mkdirSync(usual);
    expect(runningFirst(dataFolders(env, cwd, cwd))).toEqual([data, usual]);
    onTestFinished(takeLock(usual, "http://127.0.0.1:9124"));
    expect(runningFirst(dataFolders(env, cwd, cwd))).toEqual([usual, data]);
  });

  it("is not used if STOKER_DATA names another folder", () => {
    const { env, stop } = runningElsewhere();
    onTestFinished(stop);
    expect(dataFolders({ ...env, STOKER_DATA: "other" }, "/work")).toEqual(["/work/other"]);
  });

  it("removes the notes of killed ones", () => {
    const { env, data, stop } = runningElsewhere();
    onTestFinished(stop);
    // More than any process has.
    const killed = join(notesFolder(env), String(2 ** 30));
    writeFileSync(killed, `${data}\n`);
    onTestFinished(noteFolder(folder(), env));
    expect(existsSync(killed)).toBe(false);
    expect(readdirSync(notesFolder(env))).toEqual([String(process.pid)]);
  });
});
