import pino from "pino";
import { expect, it } from "vitest";
import { CommandFailed, createCommands } from "../../../../agent/session/commands.ts";
import type { CommandLog, KnownOutcome } from "../../../../agent/session/store.ts";
import type { Command__Output } from "../../../../proto/gen/stoker/fleet/v1/Command.ts";
import type { CommandResult } from "../../../../proto/gen/stoker/fleet/v1/CommandResult.ts";
import type { DesiredState__Output } from "../../../../proto/gen/stoker/fleet/v1/DesiredState.ts";

const epochs = { session: 7n, highest: 7n };

function world(execute: () => Promise<unknown> = async () => ({ bytes: 3 })) {
  const kept = new Map<string, { ended: KnownOutcome | undefined }>();
  const log: CommandLog = {
    find: (id) => kept.get(id),
    begin: async (id) => void kept.set(id, { ended: undefined }),
    end: async (id, ended) => void kept.set(id, { ended }),
  };
  let times = 0;
  const told: CommandResult[] = [];
  const answered: string[] = [];
  const commands = createCommands({
    log,
    executors: {
      backup: () => {
        times += 1;
        return execute();
      },
    },
    controlTimeMs: () => 1_000,
    desired: () => ({ instances: [{ instanceId: "i", generation: "5" }] }) as DesiredState__Output,
    answered: (kind, result) => void answered.push(`${kind} ${result}`),
    logger: pino({ level: "silent" }),
  });
  const command: Command__Output = {
    commandId: "c",
    nodeEpoch: "7",
    generation: "5",
    deadlineMs: "2000",
    instanceId: "i",
    kind: "backup",
    arguments: "{}",
  };
  return {
    log,
    kept,
    told,
    answered,
    take: (over: Partial<Command__Output> = {}, at = epochs) =>
      commands.take({ ...command, ...over }, at, (result) => void told.push(result)),
    times: () => times,
  };
}

it("runs once, and reports the same outcome when it is sent again", async () => {
  const { take, told, times } = world();
  await take();
  await take();
  expect(times()).toBe(1);
  expect(told.map(({ outcome, duplicate, result }) => [outcome, duplicate, result])).toEqual([
    ["done", false, '{"bytes":3}'],
    ["done", true, '{"bytes":3}'],
  ]);
});

it("is reported as running to a newer session, which then receives the end", async () => {
  let finish = (_: unknown) => {};
  const { take, told, times } = world(() => new Promise((resolve) => (finish = resolve)));
  const first = take();
  await Promise.resolve();
  await take({ nodeEpoch: "8" }, { session: 8n, highest: 8n });
  finish(null);
  await first;
  expect(times()).toBe(1);
  expect(told.map(({ outcome, nodeEpoch, duplicate }) => [outcome, nodeEpoch, duplicate])).toEqual([
    ["running", "8", true],
    ["done", "7", false],
    ["done", "8", true],
  ]);
});

it.each([
  ["of an older control plane", "rejected_epoch", {}, { session: 7n, highest: 9n }],
  ["of another session", "rejected_epoch", { nodeEpoch: "6" }, epochs],
  ["past its deadline", "expired", { deadlineMs: "1000" }, epochs],
  ["meant for an older form of the deployment", "rejected_generation", { generation: "4" }, epochs],
  ["of a kind this agent does not know", "unknown_kind", { kind: "dance" }, epochs],
])("does not start a command when %s", async (_, outcome, over, at) => {
  const { take, told, times, kept } = world();
  await take(over, at);
  expect(told.map((one) => one.outcome)).toEqual([outcome]);
  expect(times()).toBe(0);
  expect(kept.size).toBe(0);
});

it("does not run a command again that the end of the agent cut", async () => {
  const { take, told, times, kept } = world();
  kept.set("c", { ended: undefined });
  await take();
  expect(told).toMatchObject([{ outcome: "interrupted", duplicate: true }]);
  expect(times()).toBe(0);
});

it("reports a failed command with its code and reason", async () => {
  const { take, told } = world(() => Promise.reject(new CommandFailed("no_space", "the disk is full")));
  await take();
  expect(told).toMatchObject([{ outcome: "failed", errorCode: "no_space", errorMessage: "the disk is full" }]);
});

it("is not started if it cannot be stored, and is reported so that it is sent again", async () => {
  const { take, told, times, log } = world();
  const { begin } = log;
  log.begin = () => Promise.reject(new Error("the disk is full"));
  await take();
  log.begin = begin;
  await take();
  expect(told.map(({ outcome, duplicate }) => [outcome, duplicate])).toEqual([
    ["not_begun", false],
    ["done", false],
  ]);
  expect(times()).toBe(1);
});

it("is counted by its kind and how it ended; a kind that is not known here makes no series of its own", async () => {
  const { take, answered } = world();
  await take();
  await take();
  await take({ commandId: "d", nodeEpoch: "6" });
  await take({ commandId: "e", kind: "constructor" });
  await take({ commandId: "f", deadlineMs: "1" });
  expect(answered).toEqual([
    "backup ok",
    "backup duplicate",
    "backup rejected_epoch",
    "_unknown failed",
    "backup failed",
  ]);
});
