import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { findConnection } from "../../../cli/connection.ts";
import { dataFolders, notedFolders, noteName, notesFolder, runningFirst } from "../../../cli/data-folders.ts";
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
  it("is found by commands for server, key and agents until it stops", () => {
    const { env, data, stop } = runningElsewhere();
    const cwd = folder();
    const found = findConnection({}, env, cwd, "/nonexistent");
    expect([found.host, found.key(), found.dataFolder]).toEqual(["http://127.0.0.1:9123", "stk_elsewhere", data]);
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

  it("is not changed by commands on the host unless it is named", () => {
    const { env, data, stop } = runningElsewhere();
    onTestFinished(stop);
    const cwd = folder();
    expect(() => hostEnvironment(env, undefined, cwd, cwd)).toThrow(`name it with --data ${data}`);
    expect(hostEnvironment(env, data, cwd)["STOKER_SECRETS_DIR"]).toBe(join(data, "secrets"));
    const own = join(cwd, ".stoker");
    mkdirSync(join(own, "secrets"), { recursive: true });
    writeFileSync(join(own, "secrets", "postgres.password"), "pw\n");
    writeFileSync(join(own, "ports.json"), '{"postgres":5434}');
    expect(hostEnvironment(env, undefined, cwd)["STOKER_SECRETS_DIR"]).toBe(join(own, "secrets"));
  });

  it("is not used if STOKER_DATA names another folder", () => {
    const { env, stop } = runningElsewhere();
    onTestFinished(stop);
    expect(dataFolders({ ...env, STOKER_DATA: "other" }, "/work")).toEqual(["/work/other"]);
  });

  it("removes the notes of killed ones, and none of another pid namespace", () => {
    const { env, data, stop } = runningElsewhere();
    onTestFinished(stop);
    const notes = notesFolder(env);
    const ofKilled = folder();
    writeFileSync(join(ofKilled, "up.lock"), JSON.stringify({ pid: process.pid, startedAt: "earlier boot:1" }));
    for (const name of [noteName(1), noteName(2 ** 30), "1-7"]) writeFileSync(join(notes, name), `${ofKilled}\n`);
    // Killed before this start on the same folder.
    writeFileSync(join(notes, noteName(2)), `${data}\n`);
    onTestFinished(noteFolder(folder(), env));
    expect(readdirSync(notes).toSorted()).toEqual(["1-7", noteName(process.pid)].toSorted());
  });

  it("is found beside entries that are no notes", () => {
    const { env, data, stop } = runningElsewhere();
    onTestFinished(stop);
    const notes = notesFolder(env);
    mkdirSync(join(notes, noteName(3)));
    symlinkSync("/nonexistent", join(notes, noteName(4)));
    writeFileSync(join(notes, "README"), "kept");
    expect(dataFolders(env, folder(), folder())).toContain(data);
    onTestFinished(noteFolder(data, env));
    expect(dataFolders(env, folder(), folder())).toContain(data);
    expect(readFileSync(join(notes, "README"), "utf8")).toBe("kept");
  });
});

describe("noteFolder", () => {
  const data = "/data";
  const state = (made: string) => ({ XDG_STATE_HOME: made });

  it("changes nothing behind a link in place of its folder", () => {
    const made = folder();
    const target = join(made, "target");
    mkdirSync(target, { mode: 0o700 });
    for (const name of ["passwd", noteName(2 ** 30)]) writeFileSync(join(target, name), "kept");
    mkdirSync(join(made, "stoker"));
    symlinkSync(target, join(made, "stoker", "up"));
    noteFolder(data, state(made))();
    expect(readdirSync(target).toSorted()).toEqual([noteName(2 ** 30), "passwd"].toSorted());
    expect(notedFolders(state(made))).toEqual([]);
  });

  it("writes nothing through a link with the name of its note", () => {
    const made = folder();
    const target = join(made, "target");
    writeFileSync(target, "kept");
    const notes = notesFolder(state(made));
    mkdirSync(notes, { recursive: true, mode: 0o700 });
    symlinkSync(target, join(notes, noteName(process.pid)));
    onTestFinished(noteFolder(data, state(made)));
    expect(readFileSync(target, "utf8")).toBe("kept");
    expect(readFileSync(join(notes, noteName(process.pid)), "utf8")).toBe("/data\n");
  });

  it("notes nothing in a folder that others can write to", () => {
    const made = folder();
    const notes = notesFolder(state(made));
    mkdirSync(notes, { recursive: true });
    chmodSync(notes, 0o777);
    noteFolder(data, state(made));
    expect(readdirSync(notes)).toEqual([]);
  });

  it("creates nothing in a folder of another user", (context) => {
    if (process.getuid?.() !== 0) context.skip("NOT PROVEN: only root can make a folder another user's.");
    const made = folder();
    chownSync(made, 65_534, 65_534);
    noteFolder(data, state(made));
    expect(readdirSync(made)).toEqual([]);
  });
});
