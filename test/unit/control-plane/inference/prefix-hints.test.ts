import { beforeEach, describe, expect, it } from "vitest";
import { PrefixHints } from "../../../../control-plane/inference/prefix-hints.ts";
import { PrefixIndex } from "../../../../control-plane/inference/prefix-index.ts";
import { PromptScopes } from "../../../../control-plane/inference/prompt-blocks.ts";
import { type Choice, Router } from "../../../../control-plane/inference/route.ts";
import { FakeRoutes } from "../../../fakes/ports.ts";

const scope = new PromptScopes(Buffer.from("secret")).of("ada", undefined);
const conversation = (turns: number) =>
  Buffer.from(
    JSON.stringify({
      messages: [
        { role: "system", content: "You are careful. ".repeat(2_000) },
        ...Array.from({ length: turns }, (_, i) => ({ role: "user", content: `Turn ${i}. `.repeat(200) })),
      ],
    }),
  );

let sent: string[];
let due: (() => void)[];
let receivers: ((message: string) => void)[];
beforeEach(() => {
  sent = [];
  due = [];
  receivers = [];
});

/** A control plane with the same instances, which it numbers from `firstSlot` on. */
function replica(firstSlot: number) {
  const routes = new FakeRoutes();
  for (let i = 0; i < 4; i++) routes.add("http://127.0.0.1:1", { slot: firstSlot + i });
  const index = new PrefixIndex(2 ** 12);
  const hints = new PrefixHints({
    index,
    slotOf: (instance) => routes.routes.find(({ instanceId }) => instanceId === instance)?.slot,
    wait: (act) => due.push(act),
    link: { publish: (message) => sent.push(message), on: (handler) => receivers.push(handler) },
  });
  const router = new Router(() => 0, index, hints);
  const pick = (body: Buffer): Choice => {
    router.blocks.fill(body, "messages", scope);
    const prompt = { blocks: router.blocks, tokens: Math.ceil(body.length / 4), sequences: 1, scope };
    return router.pick(routes.routes, [], prompt) as Choice;
  };
  return { routes: routes.routes, hints, router, pick };
}
const publish = () => {
  for (const act of due.splice(0)) act();
};

describe("hints between control planes", () => {
  it("send the next turn of a conversation to the instance that another one chose", () => {
    const [one, other] = [replica(0), replica(100)];
    for (const route of one.routes.slice(0, 3)) route.queuedTokens = 100_000;
    expect(one.pick(conversation(3)).route.instanceId).toBe("instance-4");
    publish();
    for (const message of sent) receivers[1]?.(message);
    const next = other.pick(conversation(4));
    expect(next.route.instanceId).toBe("instance-4");
    expect(next.cachedTokens).toBeGreaterThan(4 * next.freshTokens);
  });

  it("are one message for all prompts of a time, of bounded size", () => {
    const one = replica(0);
    for (let i = 0; i < 3_000; i++) one.pick(Buffer.concat([Buffer.from(`{"messages":"${i} `), conversation(3)]));
    expect(due).toHaveLength(1);
    publish();
    expect(sent).toHaveLength(1);
    expect(sent[0]?.length).toBeLessThan(100 * 1024);
    publish();
    expect(sent).toHaveLength(1);
  });

  it("above the limits are not read: of blocks, those of all instances together; of characters, the whole message", () => {
    const noted: number[] = [];
    let receive = (_message: string) => {};
    new PrefixHints({
      index: { noteBlock: (place: number) => noted.push(place) } as unknown as PrefixIndex,
      slotOf: () => 0,
      wait: () => {},
      link: {
        publish: () => {},
        on: (handler) => {
          receive = handler;
        },
      },
    });
    const some = Buffer.alloc(8 * 5_000, 1).toString("base64");
    receive(JSON.stringify({ a: some, b: some, c: some }));
    expect(noted).toHaveLength(8_192);
    receive(JSON.stringify({ a: some, b: "x".repeat(512 * 1024) }));
    expect(noted).toHaveLength(8_192);
  });

  it("that are wrong or name unknown instances change nothing", () => {
    const other = replica(0);
    const block = Buffer.alloc(8, 1).toString("base64");
    for (const message of [
      "",
      "{",
      "null",
      "[1]",
      '{"instance-1":7}',
      `{"instance-9":"${block}"}`,
      '{"instance-1":"AAA"}',
    ])
      receivers[0]?.(message);
    expect(other.pick(conversation(3)).cachedTokens).toBe(0);
  });
});
