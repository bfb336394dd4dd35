import pino from "pino";
import { expect, it } from "vitest";
import type { CommandStore, HostSession } from "../../../../control-plane/fleet/store.ts";
import { createCommandSender } from "../../../../control-plane/rpc/command-sender.ts";
import type { CommandResult__Output } from "../../../../proto/gen/stoker/fleet/v1/CommandResult.ts";

function world() {
  const sent: string[] = [];
  const finished: string[] = [];
  const store: CommandStore = {
    pending: async () => [
      { id: "c", instanceId: "", generation: 0n, kind: "backup", arguments: {}, deadlineMs: Date.now() + 60_000 },
    ],
    finish: async (_, { outcome }) => void finished.push(outcome),
  };
  const sender = createCommandSender({
    store,
    session: { hostId: "h", nodeEpoch: 7n } as unknown as HostSession,
    send: ({ command }) => void sent.push(command?.commandId ?? ""),
    log: pino({ level: "silent" }),
  });
  const take = (outcome: string) =>
    sender.take({ commandId: "c", outcome, errorCode: "", errorMessage: "", result: "" } as CommandResult__Output);
  return { sender, sent, finished, take };
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
