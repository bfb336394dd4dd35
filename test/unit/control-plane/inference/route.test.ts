import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Route } from "../../../../control-plane/fleet/routes.ts";
import { PrefixIndex } from "../../../../control-plane/inference/prefix-index.ts";
import { PromptBlocks, type PromptScope, PromptScopes } from "../../../../control-plane/inference/prompt-blocks.ts";
import { type Choice, Router } from "../../../../control-plane/inference/route.ts";
import { Random } from "../../../../simulator/random.ts";
import { FakeRoutes } from "../../../fakes/ports.ts";

const routesOf = (loads: readonly (readonly [inFlight: number, maxBatchSize: number])[]) => {
  const routes = new FakeRoutes();
  for (const [inFlight, maxBatchSize] of loads) routes.add("http://127.0.0.1:1", { inFlight, maxBatchSize });
  return routes.routes;
};
const idle = (count: number) => routesOf(Array.from({ length: count }, () => [0, 64] as const));
const anyLoads = fc.array(fc.tuple(fc.nat(64), fc.integer({ min: 1, max: 64 })), { minLength: 1, maxLength: 80 });

const scopes = new PromptScopes(Buffer.from("secret"));
const [ada, bob] = [scopes.of("ada", undefined), scopes.of("bob", undefined)];
const words = (count: number, word: string) => `${word} `.repeat(count);
const system = { role: "system", content: words(2_000, "careful") };
const bodyOf = (messages: readonly object[], rest: object = {}) =>
  Buffer.from(JSON.stringify({ model: "m", messages, ...rest }));
const conversation = (name: string, turns: number) => [
  system,
  ...Array.from({ length: turns }, (_, i) => ({ role: "user", content: `${name} ${i} ${words(200, name)}` })),
];

function pick(router: Router, routes: readonly Route[], body: Buffer, scope = ada): Choice {
  router.blocks.fill(body, "messages", scope);
  const prompt = { blocks: router.blocks, tokens: Math.ceil(body.length / 4), sequences: 1, scope };
  return router.pick(routes, [], prompt) as Choice;
}
const prompt = (blocks = new PromptBlocks()) => ({ blocks, tokens: 100, sequences: 1, scope: ada });

describe("a choice", () => {
  it("is an untried instance with free batch slots while there is one", () => {
    fc.assert(
      fc.property(anyLoads, fc.array(fc.nat(79)), fc.string(), fc.integer(), (loads, triedAt, text, seed) => {
        const routes = routesOf(loads);
        const tried = routes.filter((_, i) => triedAt.includes(i));
        const router = new Router(new Random(seed).next, new PrefixIndex(2 ** 10));
        const body = bodyOf([system, { role: "user", content: text }]);
        for (let i = 0; i < 3; i++) pick(router, routes, body);
        router.blocks.fill(body, "messages", ada);
        const choice = router.pick(routes, tried, prompt(router.blocks));
        const left = routes.filter((route) => !tried.includes(route));
        expect(choice?.route).toBe(left.length === 0 ? undefined : left.find((route) => route === choice?.route));
        expect(choice === undefined).toBe(left.length === 0);
        if (left.some(({ inFlight, maxBatchSize }) => inFlight < maxBatchSize))
          expect(choice?.route.inFlight).toBeLessThan(choice?.route.maxBatchSize as number);
      }),
    );
  });

  it("depends on nothing but the requests before and the random numbers", () => {
    fc.assert(
      fc.property(fc.integer(), fc.array(fc.nat(5), { maxLength: 30 }), (seed, names) => {
        const run = () => {
          const routes = idle(8);
          const router = new Router(new Random(seed).next, new PrefixIndex(2 ** 10));
          return names.map((name, i) => {
            const choice = pick(router, routes, bodyOf(conversation(`agent-${name}`, 1 + (i % 4))));
            router.sent(choice);
            return choice.route.instanceId;
          });
        };
        expect(run()).toEqual(run());
      }),
    );
  });

  it("is the least busy instance for its size without a known prompt", () => {
    const routes = routesOf([
      [6, 8],
      [8, 16],
      [2, 8],
    ]);
    expect(new Router().pick(routes, [], prompt())?.route).toBe(routes[2]);
  });

  it("does not repeat an instance whose object was created again", () => {
    const routes = idle(2);
    expect(new Router().pick(routes, idle(1), prompt())?.route.instanceId).toBe("instance-2");
    expect(new Router().pick(routes, idle(2), prompt())).toBeUndefined();
    expect(new Router().pick([], [], prompt())).toBeUndefined();
  });

  it("falls evenly on equal instances", () => {
    const routes = idle(5);
    const router = new Router(new Random(1).next);
    const counts = new Map<Route, number>();
    for (let i = 0; i < 1_000; i++) {
      const route = router.pick(routes, [], prompt())?.route as Route;
      counts.set(route, (counts.get(route) ?? 0) + 1);
    }
    for (const route of routes) expect(counts.get(route)).toBeGreaterThan(120);
  });

  it("avoids prompts that wait for evaluation, until their first byte", () => {
    const routes = idle(2);
    const router = new Router();
    const long = router.pick(routes, [], { ...prompt(), tokens: 20_000 }) as Choice;
    router.sent(long);
    const other = routes.find((route) => route !== long.route) as Route;
    for (let i = 0; i < 5; i++) router.sent(router.pick(routes, [], prompt()) as Choice);
    expect(other.inFlight).toBe(5);
    router.sawFirstByte(long);
    expect(router.pick(routes, [], prompt())?.route).toBe(long.route);
    router.ended(long);
    expect(long.route).toMatchObject({ inFlight: 0, queuedTokens: 0 });
  });
});

describe("a choice among 1,000 instances", () => {
  const busy = (inFlight: number) => routesOf(Array.from({ length: 1_000 }, () => [inFlight, 8] as const));

  it("follows a conversation, and places new ones elsewhere", () => {
    const routes = busy(0);
    const router = new Router(new Random(5).next);
    pick(router, routes, bodyOf(conversation("first", 1)));
    const homes = new Map<number, Route>();
    for (let turn = 1; turn <= 4; turn++)
      for (let agent = 0; agent < 300; agent++) {
        const choice = pick(router, routes, bodyOf(conversation(`agent-${agent}`, turn), { stream: true }));
        if (turn === 1) {
          homes.set(agent, choice.route);
          router.sent(choice);
          router.sawFirstByte(choice);
        } else expect(choice.cachedTokens / (choice.cachedTokens + choice.freshTokens)).toBeGreaterThan(0.7);
        expect(choice.route).toBe(homes.get(agent));
      }
    // The system prompt is known as common from the fourth conversation on.
    expect(Math.max(...routes.map(({ inFlight }) => inFlight))).toBeLessThanOrEqual(4);
    expect(new Set(homes.values()).size).toBeGreaterThan(230);
  });

  it("finds the only instance with a free batch slot", () => {
    const routes = busy(8);
    const free = routes[777] as Route;
    free.inFlight = 7;
    const router = new Router(new Random(2).next);
    for (let i = 0; i < 20; i++) expect(pick(router, routes, bodyOf(conversation("agent", 2))).route).toBe(free);
  });

  it("is none that was tried, also if it holds the prompt", () => {
    const routes = busy(0);
    const router = new Router(new Random(4).next);
    const body = bodyOf(conversation("agent", 3));
    const tried: Route[] = [];
    for (let i = 0; i < 3; i++) {
      router.blocks.fill(body, "messages", ada);
      const choice = router.pick(routes, tried, { ...prompt(router.blocks), tokens: 4_000 });
      expect(tried).not.toContain(choice?.route);
      tried.push(choice?.route as Route);
    }
  });

  it("takes nothing from a choice in a small deployment before it", () => {
    const [small, routes] = [idle(8), busy(0)];
    const router = new Router(new Random(6).next);
    const body = bodyOf(conversation("agent", 3));
    for (let i = 0; i < 3; i++) pick(router, small, body);
    const large = routes.map((route, slot) => ({
      ...route,
      slot: 10_000 + slot,
      instanceId: `large-${slot}` as Route["instanceId"],
    }));
    expect(pick(router, large, body).cachedTokens).toBe(0);
  });
});

describe("conversations", () => {
  it("stay where they are, and new ones spread although they share a system prompt", () => {
    const routes = idle(8);
    const router = new Router(new Random(7).next);
    const homes = new Map<number, Route>();
    for (let turn = 1; turn <= 6; turn++)
      for (let agent = 0; agent < 32; agent++) {
        const choice = pick(router, routes, bodyOf(conversation(`agent-${agent}`, turn), { stream: true }));
        if (turn === 1) homes.set(agent, choice.route);
        expect(choice.route).toBe(homes.get(agent));
        if (turn === 1) router.sent(choice);
        if (turn > 1) expect(choice.cachedTokens / (choice.cachedTokens + choice.freshTokens)).toBeGreaterThan(0.7);
      }
    for (const route of routes) expect(route.inFlight).toBeLessThanOrEqual(8);
  });

  it("move when their instance has more to do than they would evaluate again", () => {
    const routes = idle(2);
    const router = new Router();
    const body = bodyOf(conversation("agent", 3));
    const { route } = pick(router, routes, body);
    expect(pick(router, routes, body).route).toBe(route);
    route.queuedTokens += body.length;
    expect(pick(router, routes, body).route).not.toBe(route);
  });

  it("of one account never steer those of another", () => {
    const routes = idle(8);
    const router = new Router(new Random(3).next);
    const body = bodyOf(conversation("agent", 3));
    pick(router, routes, body, ada);
    expect(pick(router, routes, body, ada).cachedTokens).toBeGreaterThan(0);
    expect(pick(router, routes, body, bob).cachedTokens).toBe(0);
  });

  it("that a key names go to one instance, whatever their prompts are", () => {
    const routes = idle(8);
    const router = new Router(new Random(3).next);
    const keyed = (key: string, scope: PromptScope) => {
      router.blocks.fillKey(key, scope);
      return router.pick(routes, [], { blocks: router.blocks, tokens: 5_000, sequences: 1, scope }) as Choice;
    };
    const home = keyed("k", ada).route;
    for (let i = 0; i < 8; i++) expect(keyed("k", ada).route).toBe(home);
    expect(keyed("other", ada).cachedTokens).toBe(0);
    expect(keyed("k", bob).cachedTokens).toBe(0);
  });

  it("follow only the load when the engine reports that it caches nothing, and only for that account", () => {
    const routes = idle(2);
    const router = new Router();
    const body = bodyOf(conversation("agent", 3));
    for (const scope of [ada, bob]) pick(router, routes, body, scope);
    for (let i = 0; i < 60; i++) router.learn(pick(router, routes, body, ada), 0);
    const choice = pick(router, routes, body, ada);
    expect(choice.freshTokens).toBeGreaterThan(0.95 * Math.ceil(body.length / 4));
    const other = pick(router, routes, body, bob);
    expect(other.freshTokens).toBeLessThan(0.1 * Math.ceil(body.length / 4));
  });
});

describe("the last response of a conversation", () => {
  const reply = { role: "assistant", content: words(2_000, "reply") };
  const first = conversation("chat", 1);
  const next = { role: "user", content: words(200, "next") };
  const endOf = (messages: readonly object[]) => {
    const blocks = new PromptBlocks();
    const body = bodyOf(messages);
    blocks.fill(body, "messages", ada);
    return body.indexOf('"messages"') + blocks.responseEnd;
  };
  const startOf = (messages: readonly object[], message: object) =>
    bodyOf(messages).lastIndexOf(JSON.stringify(message));

  it("counts as evaluated by the instance that wrote it", () => {
    const routes = idle(8);
    const router = new Router(new Random(1).next, new PrefixIndex(2 ** 10));
    const { route } = pick(router, routes, bodyOf(first));
    const body = bodyOf([...first, reply, next]);
    const choice = pick(router, routes, body);
    expect(choice.route).toBe(route);
    expect(choice.freshTokens).toBeCloseTo(JSON.stringify(next).length / 4, -2);
  });

  it("does not count where the beginning of the conversation was dropped, or the request before went elsewhere", () => {
    const routes = idle(8);
    const router = new Router(new Random(1).next, new PrefixIndex(2 ** 10));
    const long = { role: "user", content: words(3_000, "long") };
    const tokensOf = (messages: readonly object[]) => Math.ceil(bodyOf(messages).length / 4);
    pick(router, routes, bodyOf(first));
    for (const messages of [
      [system, long, reply, next],
      [...first, reply, long, reply, next],
    ]) {
      const choice = pick(router, routes, bodyOf(messages));
      expect(choice.cachedTokens).toBeLessThanOrEqual(tokensOf(first));
      expect(choice.freshTokens).toBeGreaterThan(0.3 * tokensOf(messages));
    }
  });

  it("ends where the next message begins, also behind calls of tools and several responses", () => {
    const call = {
      role: "assistant",
      content: null,
      tool_calls: [{ function: { name: "a", arguments: '{"role":"assistant"}' } }],
    };
    const result = { role: "tool", content: '{"role":"assistant"}' };
    for (const messages of [
      [...first, reply, next],
      [...first, call, result, next],
      [...first, reply, next, reply, next],
    ]) {
      const after = messages.findLastIndex(({ role }) => role === "assistant") + 1;
      expect(endOf(messages)).toBe(startOf(messages.slice(0, after + 1), messages[after] as object) + 1);
    }
  });

  it("is unknown without one, behind a beginning of one, and further than 64 KiB from the end", () => {
    for (const messages of [
      first,
      [...first, reply],
      [...first, reply, { role: "user", content: words(20_000, "long") }],
    ])
      expect(endOf(messages)).toBe(bodyOf(messages).indexOf('"messages"'));
  });

  it("ends before its role where that comes last", () => {
    const turned = { content: words(100, "reply"), role: "assistant" };
    const messages = [...first, turned, { content: words(200, "next"), role: "user" }];
    expect(endOf(messages)).toBe(bodyOf(messages).lastIndexOf('"assistant"'));
  });
});

describe("the index", () => {
  const filled = (text: string) => {
    const blocks = new PromptBlocks();
    blocks.fill(bodyOf([{ role: "user", content: text }]), "messages", ada);
    return blocks;
  };
  const shareOf = (index: PrefixIndex, blocks: PromptBlocks, slot: number) => {
    const shares = new Float64Array(1);
    index.match(blocks, Int32Array.of(slot), 1, shares);
    return shares[0];
  };

  it("uses the memory that it was given, whatever it is fed, and keeps what was used last", () => {
    const index = new PrefixIndex(2 ** 8);
    const { bytes } = index;
    for (let i = 0; i < 2_000; i++) index.note(filled(`${i} ${words(300, `word-${i}`)}`), i % 200);
    expect(index.bytes).toBe(bytes);
    expect(bytes).toBe(2 ** 8 * 16);
    expect(shareOf(index, filled(`1999 ${words(300, "word-1999")}`), 1999 % 200)).toBeGreaterThan(0.5);
    expect(shareOf(index, filled(`0 ${words(300, "word-0")}`), 0)).toBe(0);
  });

  it("tells instances of different groups apart", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(1_000), { minLength: 2, maxLength: 20 }), ([noted, ...others]) => {
        const index = new PrefixIndex(2 ** 10);
        const blocks = filled(words(500, "text"));
        index.note(blocks, noted as number);
        const slots = Int32Array.from([noted as number, ...others].sort((a, b) => a - b));
        const shares = new Float64Array(slots.length);
        index.match(blocks, slots, slots.length, shares);
        for (const [i, slot] of slots.entries()) expect((shares[i] as number) > 0).toBe(slot === noted);
      }),
    );
  });
});

it("replaces the row that was used longest ago, also after its clock wrapped", () => {
  const index = new PrefixIndex(4, 2 ** 32 - 5);
  const blockOf = (tag: number) => {
    const blocks = new PromptBlocks();
    blocks.add(0, tag << 8, 1);
    return blocks;
  };
  for (let tag = 1; tag <= 6; tag++) index.note(blockOf(tag), 0);
  const shares = new Float64Array(1);
  const known = [1, 2, 3, 4, 5, 6].filter((tag) => {
    index.match(blockOf(tag), Int32Array.of(0), 1, shares);
    return shares[0] === 1;
  });
  expect(known).toEqual([3, 4, 5, 6]);
});

describe("the blocks of a prompt", () => {
  const chain = (body: Buffer, scope = ada) => {
    const blocks = new PromptBlocks();
    blocks.fill(body, "messages", scope);
    return Array.from({ length: blocks.count }, (_, i) => `${blocks.places[i]} ${blocks.tags[i]}`);
  };

  it("are equal up to the first difference, wherever the body is in memory", () => {
    fc.assert(
      fc.property(fc.nat(6_000), fc.nat(7), fc.string({ maxLength: 9 }), (at, shift, model) => {
        const text = words(1_000, "common");
        const changed = `${text.slice(0, at)}#${text.slice(at + 1)}`;
        const [one, other] = [text, changed].map((content) => bodyOf([{ role: "user", content }]));
        const start = (one as Buffer).indexOf('"messages"');
        const padded = Buffer.concat([Buffer.alloc(shift, 32), other as Buffer]).subarray(shift);
        const [left, right] = [chain(one as Buffer), chain(padded)];
        const equal = left.findIndex((block, i) => block !== right[i]);
        const position = (other as Buffer).indexOf("#") - start;
        expect(equal < 0 ? left.length : equal).toBe(Math.min(left.length, Math.floor(position / 512)));
        expect(chain(Buffer.from(JSON.stringify({ model, messages: [{ role: "user", content: text }] })))).toEqual(
          left,
        );
      }),
    );
  });

  it("differ in both hashes between accounts, adapters and installations, and not between control planes of one", () => {
    const body = bodyOf([{ role: "user", content: words(200, "common") }]);
    const hashesOf = (secret: string, account: string, adapter?: string) => {
      const blocks = new PromptBlocks();
      blocks.fill(body, "messages", new PromptScopes(Buffer.from(secret)).of(account, adapter));
      const prompt = [...blocks.places.subarray(0, blocks.count), ...blocks.tags.subarray(0, blocks.count)];
      blocks.fillKey("key", new PromptScopes(Buffer.from(secret)).of(account, adapter));
      return [...prompt, blocks.places[0], blocks.tags[0]];
    };
    const own = hashesOf("secret", "ada");
    expect(hashesOf("secret", "ada")).toEqual(own);
    const others = [hashesOf("secret", "bob"), hashesOf("secret", "ada", "adapter"), hashesOf("other", "ada")];
    const all = [own, ...others].flat();
    expect(new Set(all).size).toBe(all.length);
  });

  it("are few, however long the prompt is", () => {
    expect(chain(bodyOf([{ role: "user", content: "short" }]))).toHaveLength(0);
    expect(chain(bodyOf([{ role: "user", content: words(4_000_000, "long") }])).length).toBeLessThan(192);
  });
});
