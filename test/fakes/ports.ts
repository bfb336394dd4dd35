// In-memory stand-ins for what the HTTP edge and the inference spine are built on. Defaults serve one model to one key;
// everything is open to change by a test.

import { createHash } from "node:crypto";
import { pino } from "pino";
import { Registry } from "prom-client";
import type { AccountRecord } from "../../control-plane/accounts/account-record.ts";
import type { Authenticator, Caller } from "../../control-plane/accounts/caller.ts";
import { InvalidApiKey, sshKeyNotFound, wrongPassword } from "../../control-plane/accounts/errors.ts";
import { signInExpired, WrongSecondFactor } from "../../control-plane/accounts/factor-errors.ts";
import { createReasoningSeals } from "../../control-plane/accounts/reasoning-seals.ts";
import {
  type BegunSession,
  type Session,
  type Sessions,
  sessionIdOf,
  sessionNotFound,
} from "../../control-plane/accounts/sessions.ts";
import type { Actor } from "../../control-plane/act.ts";
import type { DeliveredCount } from "../../control-plane/billing/delivered.ts";
import {
  type Budgets,
  type Hold,
  type HoldRequest,
  InsufficientFunds,
  type ProviderHoldRequest,
  ProviderLimitReached,
} from "../../control-plane/billing/hold.ts";
import type { RequestMarks } from "../../control-plane/billing/store.ts";
import type { ModelAlias } from "../../control-plane/catalog/model-alias.ts";
import type { ModelDirectory, ServedModel } from "../../control-plane/catalog/served-model.ts";
import { DeploymentNotFound } from "../../control-plane/deployments/errors.ts";
import type { NewDryRun } from "../../control-plane/deployments/placement-preview.ts";
import type { Route, Routes } from "../../control-plane/fleet/routes.ts";
import type { HttpDeps } from "../../control-plane/http/core/create-http.ts";
import { ByteBudget } from "../../control-plane/inference/byte-budget.ts";
import { PrefixIndex } from "../../control-plane/inference/prefix-index.ts";
import { PromptScopes } from "../../control-plane/inference/prompt-blocks.ts";
import { ResponseBuffer } from "../../control-plane/inference/response-buffer.ts";
import { Router } from "../../control-plane/inference/route.ts";
import { createTop } from "../../control-plane/oversight/top.ts";
import { RateMeters } from "../../control-plane/quotas/rate-limiter.ts";
import { defaultRateLimits } from "../../control-plane/quotas/rate-limits.ts";
import { LiveFeed } from "../../control-plane/series/live-feed.ts";
import { RequestTally } from "../../control-plane/series/request-tally.ts";
import { createSeries } from "../../control-plane/series/series.ts";
import { createResumableStreams } from "../../control-plane/streams/resumable-streams.ts";
import type { AccountId, DeploymentId, HostId, InstanceId, KeyId, LeaseId, ProjectId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { fakeAdapters } from "./adapter-ports.ts";
import { agentId, fakeAgentInstances } from "./agent-instance-ports.ts";
import { fakeAliases } from "./aliases.ts";
import { fakeBatches } from "./batch-ports.ts";
import { container, fakeContainers } from "./container-ports.ts";
import { deployment, fakeDeployments, fakeOversight } from "./deployment-ports.ts";
import { fakeFactors, ticket } from "./factor-ports.ts";
import { fakeFiles, fileId } from "./file-ports.ts";
import { fakeDrainPreview, fakeEnrolment, fakeHosts } from "./fleet-records.ts";
import { fakeIdentity } from "./identity-ports.ts";
import { fakeIncidents } from "./incidents.ts";
import { fakeLimits } from "./limits.ts";
import { fakeMembers } from "./member-ports.ts";
import { memoryStreams } from "./memory-streams.ts";
import { fakeModelRecords } from "./model-records.ts";
import { fakeNodeWeights } from "./node-weights.ts";
import { fakeApplications, fakeAudit, fakeAuditChain, fakeOperator, fakePriceBook } from "./operator-ports.ts";
import { fakeBilling } from "./payment-ports.ts";
import { plainDial } from "./peers.ts";
import { fakeProjects } from "./project-ports.ts";
import { fakeProviders } from "./providers.ts";
import { fakeResponses } from "./responses.ts";
import { testSeals } from "./seals.ts";
import { fakeSeriesStore } from "./series.ts";
import { fakeTerminals } from "./terminal-ports.ts";
import { fakeIdempotency, fakeScopedJwts, fakeTokens } from "./tokens.ts";
import { fakeTopStore } from "./top.ts";
import { fakeUsageLog } from "./usage-log-ports.ts";
import { fakeVoices } from "./voices.ts";
import { fakeWebhooks } from "./webhooks.ts";

export { deployment };

export const apiKey = "stk_test_key_of_ada";
/** A scoped token, good for `org/other` alone. */
export const jwtOfAda = "jwt:of.ada.signed";
export const adminKey = "stk_test_key_of_operator";

export const ada: Caller = Object.freeze({
  account: "u:1000000000001" as AccountId,
  key: "key-ada" as KeyId,
  displayName: "ada",
  email: "ada@example.com",
  isAdmin: false,
  role: "admin",
  suspendReason: null,
  via: "key",
  models: null,
  expiresAtMs: null,
  spending: { hasAccountLimit: false, hasKeyLimit: false, token: null },
  rates: null,
  trustsUserHeaders: false,
});
export const operator: Caller = Object.freeze({
  ...ada,
  account: "u:1000000000000" as AccountId,
  key: "key-operator" as KeyId,
  displayName: "admin",
  email: "admin@localhost",
  isAdmin: true,
});

export class FakeAuthenticator implements Authenticator {
  readonly callers = new Map<string, Caller>([
    [apiKey, ada],
    [adminKey, operator],
    [jwtOfAda, { ...ada, role: "inference", via: "jwt", models: new Set(["org/other"]) }],
  ]);
  /** Answers by a promise, as for a secret that is not in memory. */
  isCold = false;

  authenticate(secret: string): Caller | Promise<Caller> {
    const caller = this.callers.get(secret);
    if (this.isCold) return caller ? Promise.resolve(caller) : Promise.reject(new InvalidApiKey());
    if (!caller) throw new InvalidApiKey();
    return caller;
  }
}

/** Own key of each account. */
const dataKeyOf = (account: string) => createHash("sha256").update(account).digest();

export const adasPassword = "correct horse";
export const adasSession: BegunSession = {
  caller: { ...ada, key: "" as KeyId, via: "session" },
  csrfToken: "csrf-of-ada",
  endsAtMs: 1_786_000_000_000,
  lookup: Buffer.alloc(32),
  // Test files share this module for longer than a sign-in counts as recent.
  get authTimeMs() {
    return Date.now();
  },
  factors: ["password"],
  mustEnrol: false,
  cookie: "cookie-of-ada",
};
const signedIn = { session: adasSession, device: "device-of-ada" };

export class FakeSessions implements Sessions {
  readonly open = new Map<string, Session>([[adasSession.cookie, adasSession]]);
  find(cookie: string): Promise<Session | undefined> {
    return Promise.resolve(this.open.get(cookie));
  }
  begin(): Promise<BegunSession> {
    return Promise.resolve(adasSession);
  }
  end(cookie: string): Promise<void> {
    this.open.delete(cookie);
    return Promise.resolve();
  }
  async list(account: AccountId) {
    const own = [...this.open.values()].filter(({ caller }) => caller.account === account);
    return own.map((one) => ({
      id: sessionIdOf(one),
      beganAtMs: one.authTimeMs,
      seenAtMs: one.authTimeMs,
      endsAtMs: one.endsAtMs,
      factors: one.factors,
      ip: "192.0.2.7",
      userAgent: "Firefox",
    }));
  }
  async revoke({ account }: Actor, id: string) {
    const found = [...this.open].find(([, one]) => one.caller.account === account && sessionIdOf(one) === id);
    if (!found) throw sessionNotFound();
    this.open.delete(found[0]);
  }
  hasCsrfToken(session: Session, token: string): boolean {
    return session.csrfToken === token;
  }
}

/** Result of a dry run that no host takes. */
const noFit: NewDryRun = {
  host: undefined,
  refused: [{ host: "host-1", why: "it has no H100-80GB GPU" }],
  engine: "vllm",
  memoryBytes: 1024 ** 3,
  hourRate: 1_790_000_000n,
  repository: "found",
};

export interface HoldLog {
  readonly request: HoldRequest;
  readonly amount: NanoUsd;
  end:
    | { how: "settled"; cost: bigint; attempt: number | undefined }
    | { how: "released" }
    | { how: "waits"; attempt: number | undefined }
    | undefined;
  /** What is called where the record does not come in time. */
  overdue: (() => void) | undefined;
}

export class FakeBudgets implements Budgets {
  available = nano(1_000_000_000_000n);
  providerLeft = nano(1_000_000_000_000n);
  isCold = false;
  leaseMs = 30_000;
  readonly holds: HoldLog[] = [];

  hold(request: HoldRequest): Hold | Promise<Hold> {
    if (this.available < request.floor) throw new InsufficientFunds();
    const isWhole = this.available >= request.full;
    const amount = isWhole ? request.full : this.available;
    const log: HoldLog = { request, amount, end: undefined, overdue: undefined };
    this.holds.push(log);
    this.available = nano(this.available - amount);
    const end = (how: NonNullable<HoldLog["end"]>, back: bigint, overdue?: () => void) => {
      if (log.end) return;
      log.end = how;
      log.overdue = overdue;
      this.available = nano(this.available + back);
    };
    const hold: Hold = {
      amount,
      leaseIds: ["lease-1" as LeaseId],
      expiresAtMs: Date.now() + this.leaseMs,
      settle: (cost, attempt, overdue) => end({ how: "settled", cost, attempt }, amount - cost, overdue),
      release: () => end({ how: "released" }, amount),
      awaitRecord: (attempt, overdue) => end({ how: "waits", attempt }, 0n, overdue),
    };
    return this.isCold ? Promise.resolve(hold) : hold;
  }

  /** Providers have what `providerLeft` says. */
  holdProvider({ amount }: ProviderHoldRequest): Hold {
    if (amount > this.providerLeft) throw new ProviderLimitReached();
    const expiresAtMs = Date.now() + this.leaseMs;
    return { amount, leaseIds: ["lease-p" as LeaseId], expiresAtMs, settle() {}, release() {}, awaitRecord() {} };
  }
}

export function servedModel(change: Partial<ServedModel> = {}): ServedModel {
  return {
    name: "org/model",
    deployId: "DpM4BkrjEspUwmTa" as DeploymentId,
    servedName: "org/model",
    owner: operator.account,
    isPublic: true,
    version: "v1",
    task: "text-generation",
    description: "A model for tests",
    contextLength: 4096,
    maxBatchSize: 8,
    // USD 0.02, 0.01 and 0.04 per million tokens.
    rates: { input: 20_000_000n, cachedInput: 10_000_000n, output: 40_000_000n },
    priceVersion: 3,
    createdAtMs: 1_786_000_000_000,
    status: "deployed",
    engine: "stoker",
    takesAdapters: true,
    ...change,
  };
}

export class FakeModels implements ModelDirectory {
  models: ServedModel[] = [servedModel()];
  named: ModelAlias[] = [];
  resolve(name: string, caller: AccountId): ServedModel | undefined {
    const alias = this.aliasOf(name);
    return this.resolveModel(alias?.targets[0]?.model ?? name, caller);
  }
  resolveModel(name: string, caller: AccountId): ServedModel | undefined {
    return this.list(caller).find((model) => model.name === name || `deploy_id:${model.deployId}` === name);
  }
  aliasOf(name: string): ModelAlias | undefined {
    return this.named.find((alias) => alias.name === name);
  }
  aliases(): readonly ModelAlias[] {
    return this.named;
  }
  find(name: string, caller: AccountId): ServedModel | undefined {
    return this.resolve(name, caller) ?? this.models.find((model) => model.name === name && model.about?.isShown);
  }
  list(caller: AccountId): readonly ServedModel[] {
    return this.models.filter((model) => model.isPublic || model.owner === caller);
  }
}

export const ticketKey = Buffer.alloc(32, 7);

export class FakeRoutes implements Routes {
  routes: Route[] = [];
  readonly failures: InstanceId[] = [];
  readonly answers: HostId[] = [];

  add(origin: string, change: Partial<Route> = {}): Route {
    const serial = this.routes.length + 1;
    const route: Route = {
      instanceId: `instance-${serial}` as InstanceId,
      deployId: servedModel().deployId,
      hostId: `host-${serial}` as HostId,
      origin,
      ticketKey,
      maxBatchSize: 8,
      slot: serial,
      inFlight: 0,
      queuedTokens: 0,
      ...change,
    };
    this.routes.push(route);
    return route;
  }
  ready(deployment: DeploymentId): readonly Route[] {
    return this.routes.filter((route) => route.deployId === deployment);
  }
  sawAnswer(host: HostId): void {
    this.answers.push(host);
  }
  sawFailure(_host: HostId, instance: InstanceId): void {
    this.failures.push(instance);
  }
}

/** Verbs over one deployment of ada's; a test replaces what it wants to see refused. */
export function fakePorts() {
  const authenticator = new FakeAuthenticator();
  const budgets = new FakeBudgets();
  const models = new FakeModels();
  const routes = new FakeRoutes();
  const rates = new RateMeters({ defaults: defaultRateLimits });
  const delivered: DeliveredCount[] = [];
  const labels: ({ requestId: string; label: string | undefined } & RequestMarks)[] = [];
  const logLines: Record<string, unknown>[] = [];
  const registry = new Registry();
  const tally = new RequestTally();
  const one = deployment();
  const billing = fakeBilling(ada.key);
  const deps: HttpDeps = {
    authenticator,
    dial: plainDial,
    spine: {
      models,
      routes,
      // Of equal instances the first.
      // A small index: tests create thousands of these ports, and the usual one has 4 MiB.
      router: new Router(() => 0, new PrefixIndex(2 ** 10), undefined, new PromptScopes(Buffer.from("secret"))),
      rates,
      budgets,
      discounts: { find: () => undefined },
      delivered: { report: (count) => delivered.push(count) },
      labels: { note: (requestId, label, _, marks) => labels.push({ ...marks, requestId, label }) },
      replicaId: "replica-1",
      sealKey: testSeals.newest,
      answers: new ResponseBuffer(256 * 1024 * 1024),
    },
    bodies: new ByteBudget(256 * 1024 * 1024),
    deployments: fakeDeployments(ada.account, one),
    oversight: fakeOversight(one),
    aliases: fakeAliases(models),
    providers: fakeProviders(one),
    catalogue: { search: () => [] },
    hub: { search: async () => [] },
    mailServer: undefined,
    modelRecords: fakeModelRecords(),
    adapters: fakeAdapters(ada.account),
    placement: {
      gpus: () =>
        Promise.resolve([
          { gpu: "H100-80GB", count: 1, hourRate: 1_790_000_000n, isAvailable: true, isRecommended: true, devices: [] },
          {
            gpu: "B200-180GB",
            count: 8,
            hourRate: 22_320_000_000n,
            isAvailable: false,
            isRecommended: false,
            devices: [],
          },
        ]),
      dryRunNew: async (_caller, { minInstances }) => ({ ...noFit, hourRate: noFit.hourRate * BigInt(minInstances) }),
      dryRunHf: async () => ({ ...noFit, engine: "stoker" }),
      priceOf: async () => ({ hourRate: 1_790_000_000n, asleepHourRate: 90_000_000n }),
      devicesOf: async () => ["processor slot"],
      dryRun: async (caller, id) => {
        if (caller.account !== one.account || id !== one.id) throw new DeploymentNotFound();
        return { host: undefined, refused: [{ host: "host-1", why: "it has no H100-80GB GPU" }] };
      },
    },
    containers: fakeContainers(ada.account),
    ...fakeAgentInstances(ada.account, one),
    terminals: fakeTerminals(ada.account, [container().id, agentId]),
    accounts: {
      createAccount: () => Promise.resolve({ account: "u:1000000000002" as AccountId, apiKey: "stk_made" }),
      findOwnKey: (account, secretOrId) =>
        Promise.resolve(
          account === ada.account && [apiKey, ada.key].includes(secretOrId as KeyId) ? ada.key : undefined,
        ),
    },
    accountMails: {
      canSend: true,
      requestVerification: async () => {},
      offerVerification: async () => {},
      verify: async () => {},
      requestReset: async () => {},
      reset: async () => {},
      idle: async () => {},
      passwordNotice: () => undefined,
      addressNotice: () => undefined,
    },
    profiles: {
      read: (account) => Promise.resolve(recordOf(account)),
      emails: (account) => Promise.resolve([recordOf(account).email ?? ""]),
      change: ({ account }, change) => Promise.resolve({ ...recordOf(account), ...change }),
      nameTeam: ({ account }, name) => Promise.resolve({ ...recordOf(account), teamDisplayName: name }),
    },
    sshKeys: {
      list: () => Promise.resolve([sshKey]),
      add: (_account, name, key) => Promise.resolve({ ...sshKey, name, key }),
      remove: (account, id) =>
        account === ada.account && id === sshKey.id ? Promise.resolve() : Promise.reject(sshKeyNotFound()),
    },
    voices: fakeVoices(ada.account),
    speechModel: undefined,
    moderationModel: undefined,
    reasoning: createReasoningSeals({ of: (account) => Promise.resolve(dataKeyOf(account)) }),
    tokens: fakeTokens(ada, apiKey),
    ...billing,
    ...fakeUsageLog(ada.account, ada.key),
    invoiceSeller: [],
    publicUrl: "https://stoker.example.com",
    isSignUpOpen: true,
    sessions: new FakeSessions(),
    signIn: {
      signIn: ({ password }) =>
        password === adasPassword ? Promise.resolve({ is: "signed_in", ...signedIn }) : Promise.reject(wrongPassword()),
      startPasskey: () => Promise.resolve({ ...ticket, options: { challenge: "Y2hhbGxlbmdl" } }),
      finish: ({ code }) => (code === "123456" ? Promise.resolve(signedIn) : Promise.reject(new WrongSecondFactor())),
      signUp: () => Promise.resolve({ account: ada.account, apiKey: "stk_made", ...signedIn }),
      setPassword: async () => {},
      enterByProvider: () => Promise.resolve({ is: "signed_in", ...signedIn }),
      createLink: () => Promise.resolve(ticket),
      useLink: (given) =>
        given === ticket.ticket
          ? Promise.resolve({ ...signedIn, hasPassword: false })
          : Promise.reject(signInExpired()),
    },
    factors: fakeFactors(),
    ...fakeIdentity(),
    cliLogins: { approve: async () => {}, wait: () => Promise.resolve("stk_made") },
    deleteAccount: ({ account }) => Promise.resolve(recordOf(account)),
    trustedProxies: [],
    corsOrigins: [],
    scopedJwts: fakeScopedJwts(ada),
    idempotency: fakeIdempotency(),
    streams: createResumableStreams({
      store: memoryStreams(),
      dataKeys: { of: async () => Buffer.alloc(32, 1) },
      log: pino({ level: "silent" }),
    }),
    enrolment: {
      createToken: () => Promise.resolve({ token: "t.s.h", id: "t", expiresAtMs: 1_786_000_900_000 }),
      revoke: async () => {},
      adopt: async () => ({ hostId: "host-1" as HostId, instances: [], deployIds: [], left: [] }),
      overview: async () => fakeEnrolment,
    },
    agentAddress: () => ({ host: "127.0.0.1", port: 9090 }),
    quotas: fakeLimits(),
    webhooks: fakeWebhooks(ada),
    responses: fakeResponses(),
    hosts: fakeHosts(),
    drainPreview: fakeDrainPreview,
    files: fakeFiles(ada.account),
    batches: fakeBatches(ada.account, [fileId]),
    nodeWeights: fakeNodeWeights(),
    operator: fakeOperator(ada),
    members: fakeMembers(),
    projects: fakeProjects("project-1" as ProjectId, 1),
    audit: fakeAudit(ada, operator),
    auditChain: fakeAuditChain,
    applications: fakeApplications(ada),
    ...fakePriceBook(),
    readiness: () => ({ isReady: true }),
    registry,
    tally,
    rejections: { note: () => {} },
    incidents: fakeIncidents(),
    top: createTop({ store: fakeTopStore() }),
    feed: new LiveFeed(fakeSeriesStore(), 20),
    series: createSeries({ store: fakeSeriesStore(), reports: { run: (_, read) => read() } }),
    log: pino({ base: null }, { write: (line: string) => void logLines.push(JSON.parse(line)) }),
    version: "0.1.0",
  };
  return { deps, authenticator, budgets, models, routes, rates, delivered, labels, logLines, registry };
}

export type FakePorts = ReturnType<typeof fakePorts>;

export const sshKey = {
  id: "ssh-key-of-ada",
  name: "laptop",
  key: "ssh-ed25519 AAAA",
  fingerprint: "SHA256:x",
  createdAtMs: 1_786_000_000_000,
};

function recordOf(account: AccountId): AccountRecord {
  const caller = account === operator.account ? operator : ada;
  return {
    uid: caller.account,
    email: caller.email,
    emailVerified: true,
    accountSetup: true,
    requireEmailVerified: false,
    displayName: caller.displayName,
    provider: "local",
    picture: null,
    isAdmin: caller.isAdmin,
    name: caller.displayName,
    firstName: "",
    lastName: "",
    country: "",
    isBusinessAccount: false,
    company: "",
    website: "",
    title: "",
    isTeamAccount: false,
    isTeamOwner: false,
    teamRole: null,
    teamDisplayName: null,
    isTeamUpgradeEnabled: true,
    rootUid: caller.account,
    suspendReason: caller.suspendReason,
  };
}
