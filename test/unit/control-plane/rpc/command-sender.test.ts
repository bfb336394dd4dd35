import pino from "pino";
import { expect, it } from "vitest";
import type { CommandStore, HostSession } from "../../../../control-plane/fleet/store.ts";
import { createCommandSender } from "../../../../control-plane/rpc/command-sender.ts";
import type { CommandResult__Output } from "../../../../proto/gen/stoker/fleet/v1/CommandResult.ts";

function world() {
  const sent: string[] = [];
  const finished: string[] = [];
  const results: unknown[] = [];
  let gate = Promise.resolve();
  const store: CommandStore = {
    pending: async () => [
      { id: "c", instanceId: "", generation: 0n, kind: "backup", arguments: {}, deadlineMs: Date.now() + 60_000 },
    ],
    async finish(_, { outcome, result }) {
      finished.push(outcome);
      results.push(result);
      await gate;
    },
  };
  const sender = createCommandSender({
    store,
    session: { hostId: "h", nodeEpoch: 7n } as unknown as HostSession,
    send: ({ command }) => void sent.push(command?.commandId ?? ""),
    log: pino({ level: "silent" }),
  });
  const take = (outcome: string, result = "") =>
    sender.take({ commandId: "c", outcome, errorCode: "", errorMessage: "", result } as CommandResult__Output);
  const holdWrites = (until: Promise<void>) => {
    gate = until;
  };
  return { sender, sent, finished, results, take, holdWrites };
}

it("a command that the agent could not begin is not finished, and sent again at the next look", async () => {
  const { sender, sent, finished, take } = world();
  await sender.sendPending();
  await take("not_begun");
  await sender.sendPending();
  expect(sent).toEqual(["c", "c"]);
  expect(finished).toEqual([]);
});

it("a command that the agent works on is not sent a second time over the session", async () => {
  const { sender, sent, take } = world();
  await sender.sendPending();
  await take("running");
  await sender.sendPending();
  expect(sent).toEqual(["c"]);
});

it("reads a result as JSON only within the limits of what an agent sends", async () => {
  const { results, take } = world();
  const nested = `${"[".repeat(300)}${"]".repeat(300)}`;
  for (const text of ['{"a":1}', nested, `"${"x".repeat(70_000)}"`, "{"]) await take("done", text);
  expect(results).toEqual([{ a: 1 }, null, null, null]);
});

it("writes at most 16 outcomes at the same time", async () => {
  const { finished, take, holdWrites } = world();
  const writing = Promise.withResolvers<void>();
  holdWrites(writing.promise);
  const taken = Array.from({ length: 40 }, () => take("done"));
  expect(finished).toHaveLength(16);
  writing.resolve();
  await Promise.all(taken);
  await take("done");
  expect(finished).toHaveLength(17);
});
