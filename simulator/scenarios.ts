// The 33 scenarios that the product's router is compared on.
import { type EngineProfile, profiles } from "./profile.ts";
import { scalingScenarios } from "./scaling-scenarios.ts";
import type { Scenario } from "./simulate.ts";
import {
  backlog,
  type ConversationShape,
  conversationArrivals,
  conversations,
  later,
  questions,
  singles,
  type World,
} from "./workload.ts";

const fleetOf = (count: number, profile: EngineProfile): readonly EngineProfile[] => Array(count).fill(profile);
const steady = (perSecond: number) => () => perSecond;
const eight = fleetOf(8, profiles["8b"]);

/** Agents that call tools: long prompts that grow, short pauses. */
const agent: ConversationShape = {
  account: "ada",
  systems: 1,
  systemTokens: 8_000,
  turnTokens: 500,
  outputTokens: 200,
  turns: 30,
  thinkMs: 2_000,
};

/** People that read and write between turns. */
const person: ConversationShape = {
  account: "ada",
  systems: 1,
  systemTokens: 400,
  turnTokens: 120,
  outputTokens: 300,
  turns: 6,
  thinkMs: 25_000,
};

const paper = {
  account: "ada",
  systemTokens: 500,
  library: 400,
  documents: 4,
  documentTokens: 1_200,
  questionTokens: 60,
  outputTokens: 250,
};

type Rest = Partial<Omit<Scenario, "name" | "kind" | "start">>;

const scenario = (kind: Scenario["kind"], name: string, start: (world: World) => void, rest: Rest = {}): Scenario => ({
  name,
  kind,
  instances: eight,
  seconds: 900,
  warmUpSeconds: 120,
  start,
  ...rest,
});

const agents = (name: string, change: Partial<ConversationShape>, count: number, rest: Rest = {}): Scenario =>
  scenario("agents", name, (world) => conversations(world, { ...agent, ...change }, count), rest);

/** Lower bound for every router: one agent alone, whose prompt is cached except for the text that a turn adds. */
export const floor = agents("one agent alone", {}, 1, { instances: fleetOf(1, profiles["8b"]), seconds: 40_000 });

const day = (nowMs: number): number => 0.5 - 0.5 * Math.cos((2 * Math.PI * nowMs) / 3_600_000);

export const scenarios: readonly Scenario[] = [
  agents("32 agents, one system prompt", {}, 32),
  agents("16 agents", {}, 16),
  agents("64 agents", {}, 64),
  agents("128 agents", {}, 128),
  agents("32 agents, system prompt of 20,000 tokens", { systemTokens: 20_000 }, 32),
  agents("64 agents, 8 system prompts", { systems: 8 }, 64),
  agents("64 agents, each its own system prompt", { systems: 1_000 }, 64),
  agents("32 agents, 80 turns each", { turns: 80, turnTokens: 300 }, 32),
  agents("48 agents that name their conversation", { hasKey: true }, 48),
  agents("48 agents through 2 gateways", {}, 48, { gateways: 2 }),
  agents("48 agents through 4 gateways", {}, 48, { gateways: 4 }),
  agents("64 agents on 4 instances of 70b", {}, 64, { instances: fleetOf(4, profiles["70b"]) }),
  agents("128 agents on 8 fast instances", {}, 128, { instances: fleetOf(8, profiles["8b-fast"]) }),
  scenario(
    "agents",
    "agents of 12 accounts",
    (world) => {
      for (let i = 0; i < 12; i++) conversations(world, { ...agent, account: `account-${i}` }, 4);
    },
    {},
  ),
  agents("256 agents on 64 instances", {}, 256, { instances: fleetOf(64, profiles["8b"]), seconds: 600 }),

  scenario("chat", "chat, 1 new conversation a second", (world) => conversationArrivals(world, person, steady(1))),
  scenario("chat", "chat, 5 new conversations a second", (world) => conversationArrivals(world, person, steady(5))),
  scenario("chat", "chat, overloaded", (world) => conversationArrivals(world, person, steady(16)), { seconds: 600 }),
  scenario("chat", "chat, short prompts without a system prompt", (world) =>
    conversationArrivals(world, { ...person, systemTokens: 0, turns: 1 }, steady(12)),
  ),
  scenario("chat", "chat on fast and slow instances", (world) => conversationArrivals(world, person, steady(6)), {
    instances: [...fleetOf(2, profiles["8b-fast"]), ...fleetOf(4, profiles["8b"])],
  }),

  scenario("documents", "questions about 400 documents", (world) => questions(world, paper, steady(8))),
  scenario("documents", "questions about 20 documents", (world) =>
    questions(world, { ...paper, library: 20 }, steady(10)),
  ),
  scenario("documents", "unrelated long prompts", (world) =>
    singles(world, { account: "ada", promptTokens: 6_000, outputTokens: 200 }, steady(7)),
  ),

  scenario("mixed", "a batch beside chat", (world) => {
    conversationArrivals(world, person, steady(2));
    backlog(world, { account: "bob", promptTokens: 2_000, outputTokens: 300 }, 64);
  }),
  scenario("mixed", "agents, chat and questions", (world) => {
    conversations(world, agent, 24);
    conversationArrivals(world, { ...person, account: "bob" }, steady(2));
    questions(world, { ...paper, account: "eve" }, steady(2));
  }),

  scenario(
    "tenants",
    "one tenant at 1,000 times the others",
    (world) => {
      for (let i = 0; i < 10; i++)
        singles(world, { account: `account-${i}`, promptTokens: 800, outputTokens: 150 }, steady(0.1));
      singles(world, { account: "flood", promptTokens: 800, outputTokens: 150 }, steady(100));
    },
    { seconds: 600 },
  ),

  scenario("failure", "agents, a host is lost", (world) => {
    conversations(world, agent, 32);
    later(world, 400_000, () => world.fleet.lose());
  }),
  scenario("failure", "chat, two hosts are lost", (world) => {
    conversationArrivals(world, person, steady(3));
    later(world, 300_000, () => world.fleet.lose());
    later(world, 500_000, () => world.fleet.lose());
  }),

  scenario(
    "scale",
    "chat by day and night, 1 to 8 instances",
    (world) => conversationArrivals(world, person, (nowMs) => 0.2 + 6 * day(nowMs)),
    { instances: fleetOf(1, profiles["8b"]), scale: { min: 1, max: 8 }, seconds: 3_600, warmUpSeconds: 0 },
  ),
  scenario(
    "scale",
    "agents arrive, 2 to 8 instances",
    (world) => conversationArrivals(world, agent, (nowMs) => 0.02 + 0.1 * day(nowMs)),
    {
      instances: fleetOf(2, { ...profiles["8b"], maxBatchSize: 12 }),
      scale: { min: 2, max: 8 },
      seconds: 3_600,
      warmUpSeconds: 0,
    },
  ),
  ...scalingScenarios,
];
