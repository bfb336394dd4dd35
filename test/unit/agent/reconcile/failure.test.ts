import { describe, expect, it } from "vitest";
import type { LogLine } from "../../../../agent/reconcile/driver.ts";
import { type Exited, failureOf, gaveUp, reasonOfExit } from "../../../../agent/reconcile/failure.ts";
import { sighting } from "../../../fakes/instance-spec.ts";

const mib = 1024 * 1024;
const exited = (over: Partial<Exited>) => ({ ...(sighting("exited") as Exited), exitCode: undefined, ...over });
const log = (...lines: string[]): LogLine[] => lines.map((line) => ({ at: "1.000000000", line }));
const pino = (level: number | string, msg: string, err?: string) =>
  JSON.stringify({ level, time: 1, msg, ...(err ? { err: { message: err } } : {}) });

describe("the reason of an instance's end", () => {
  it.each([
    ["memory", exited({ oomKilled: true, signal: "SIGKILL" }), [], "oom_killed", /^limit 512MiB/, false],
    [
      "its own refusal",
      exited({ exitCode: 2 }),
      [pino("error", "bad model")],
      "bad_model",
      /^bad model\. Choose/,
      true,
    ],
    [
      "a failure it logged",
      exited({ exitCode: 1 }),
      [pino(50, "cannot load", "no such tensor"), pino(30, "bye")],
      "exit_1",
      /cannot load: no such tensor/,
      false,
    ],
    [
      "a plain line",
      exited({ exitCode: 134 }),
      ["terminate called", "fatal error: abort", "  at x"],
      "exit_134",
      /fatal error: abort/,
      false,
    ],
    ["nothing said", exited({ exitCode: 0 }), [], "exit_0", /ended by itself; it left no line/, false],
    [
      "a signal",
      exited({ signal: "SIGSEGV" }),
      ["last words"],
      "signal_sigsegv",
      /ended by SIGSEGV; its log says: last words/,
      false,
    ],
    ["a kill from outside", exited({ signal: "SIGKILL" }), [], "signal_sigkill", /may have run out of memory/, false],
    ["nobody looking", exited({}), [], "exit_unknown", /for an unknown reason/, false],
  ] as const)("is reported for %s", (_, exit, lines, code, message, isTerminal) => {
    const why = reasonOfExit(exit, 512 * mib, log(...lines));
    expect(why.failure.code).toBe(code);
    expect(why.failure.message).toMatch(message);
    expect(why.isTerminal).toBe(isTerminal);
  });

  it("is terminal for a rented container with an unsuitable image; the same code of a model server is a crash", () => {
    const said = log("stoker: error: this image has neither useradd nor adduser; its operator must install one");
    const rented = reasonOfExit(exited({ exitCode: 64 }), 0, said, { isRental: true });
    expect(rented).toMatchObject({ isTerminal: true, failure: { code: "image_unusable" } });
    expect(rented.failure.message).toMatch(/cannot be used: this image has neither useradd nor adduser/);
    expect(reasonOfExit(exited({ exitCode: 64 }), 0, said)).toMatchObject({
      isTerminal: false,
      failure: { code: "exit_64" },
    });
  });

  it("counts an out-of-memory kill separately from other exits", () => {
    expect(reasonOfExit(exited({ oomKilled: true }), 0, []).reason).toBe("oom");
    expect(reasonOfExit(exited({ exitCode: 1 }), 0, []).reason).toBe("exit");
  });

  it("keeps the last 40 lines when it gives up, because the log is removed with the instance", () => {
    const lines = log(...Array.from({ length: 60 }, (_, i) => `line ${i}.`));
    const { code, message } = gaveUp({ code: "exit_1", message: "it ended" }, 5, lines);
    expect(code).toBe("exit_1");
    expect(message).toContain("line 20.");
    expect(message).toContain("line 59.");
    expect(message).not.toContain("line 19.");
  });

  it("passes on the message of a typed error and keeps an untyped one retryable", () => {
    const typed = Object.assign(new Error("The repository is gated"), { code: "hub_gated_no_token", retryable: false });
    expect(failureOf(typed, "x")).toEqual({
      code: "hub_gated_no_token",
      message: "The repository is gated",
      isTerminal: true,
    });
    expect(failureOf(new Error("boom"), "start_failed")).toMatchObject({ code: "start_failed", isTerminal: false });
  });

  it("names a full disk without the path of the host", () => {
    const full = Object.assign(new Error("ENOSPC: no space left on device, write '/srv/agent/x'"), { code: "ENOSPC" });
    expect(failureOf(full, "start_failed")).toEqual({
      code: "no_space",
      message: "the disk of the host is full; free some space in the agent's data folder",
      isTerminal: false,
    });
  });
});
