// LoRA adapters with their ports filled in: verbs, what waits for one, and the loop that drops those nobody uses.
import type { Logger } from "pino";
import type { AccountId, AdapterId } from "../../proto/ids.ts";
import type { LookAtRepo } from "../catalog/hub-look.ts";
import type { ModelDirectory, ServedAdapter } from "../catalog/served-model.ts";
import { createAdapterWaker } from "../deployments/adapter-wake.ts";
import { type Adapters, createAdapters } from "../deployments/adapters.ts";
import type { AskForInstance } from "../deployments/wake.ts";
import { createAdapterStore } from "../store/adapter-store.ts";
import type { ChangeFeed } from "../store/change-feed.ts";
import type { OpenDatabase } from "../store/database.ts";
import type { AddressRules } from "../webhooks/addresses.ts";
import { BadWebhookUrl, WebhookRefused } from "../webhooks/errors.ts";
import { resolveHost } from "../webhooks/resolve-host.ts";
import { createTargets } from "../webhooks/target.ts";
import { answering } from "./answering.ts";
import type { Fleet } from "./fleet.ts";
import { refreshOn } from "./refresh-loop.ts";
import type { HubTokens } from "./seals.ts";

export interface AdapterParts {
  readonly db: OpenDatabase["db"];
  readonly feed: Pick<ChangeFeed, "on">;
  readonly fleet: Pick<Fleet, "routing">;
  readonly directory: ModelDirectory & { refresh(): Promise<void> };
  readonly lookAtRepo: LookAtRepo;
  readonly tokens: Pick<HubTokens, "seal">;
  /** Where customers' URLs may lead; the host that fetches looks again. */
  readonly urlRules: AddressRules;
  readonly askForInstance: AskForInstance;
  /** One that nobody used for so long is unloaded. */
  readonly idleMs: number;
  readonly log: Logger;
}

/** Uses of one adapter within this are written down once. */
const noteEveryMs = 30_000;
const mostNoted = 10_000;
/** As hosts take them (agent/weights/public-web.ts). */
const mostUrlCharacters = 4096;
const tendEveryMs = 15_000;

export function createAdapterParts(parts: AdapterParts) {
  const store = createAdapterStore(parts.db);
  const { directory, fleet } = parts;
  const adapters = createAdapters({
    store,
    resolve: (model, account) => directory.resolve(model, account),
    refresh: () => directory.refresh(),
    lookAtRepo: parts.lookAtRepo,
    whyUrlRefused: createUrlCheck(parts.urlRules),
    sealToken: parts.tokens.seal,
  });
  const verbs: Adapters = {
    create: (owner, request) =>
      answering(async () => {
        const created = await adapters.create(owner, request);
        // The next request to this replica knows it.
        await directory.refresh();
        return created;
      }),
    get: (owner, name) => answering(() => adapters.get(owner, name)),
    change: (owner, name, change) => answering(() => adapters.change(owner, name, change)),
    remove: (owner, name) =>
      answering(async () => {
        const removed = await adapters.remove(owner, name);
        await directory.refresh();
        return removed;
      }),
    list: (account, baseModel) => answering(() => adapters.list(account, baseModel)),
  };
  const loop = refreshOn(parts.feed, [], {
    what: "LoRA adapters",
    refresh: async () => void (await store.tend(parts.idleMs)),
    everyMs: Math.min(tendEveryMs, parts.idleMs),
    log: parts.log,
  });
  return {
    verbs,
    ask: createAdapterWaker({
      store,
      askForInstance: parts.askForInstance,
      isBaseReady: (id) => fleet.routing.ready(id).length > 0,
    }),
    noteUse: createNoteUse((id, account) => store.used(id, account)),
    run: loop.run,
  };
}

/** A use that could not be written down costs an adapter its place at worst, and the next one says it again. */
function createNoteUse(used: (id: AdapterId, account: AccountId) => Promise<void>) {
  const noted = new Map<AdapterId, number>();
  return ({ id, account }: ServedAdapter): void => {
    const nowMs = performance.now();
    if (nowMs - (noted.get(id) ?? Number.NEGATIVE_INFINITY) < noteEveryMs) return;
    if (noted.size >= mostNoted) noted.clear();
    noted.set(id, nowMs);
    used(id, account).catch(() => noted.delete(id));
  };
}

/** URLs of adapters go by the rules of webhooks, and may be longer: signatures are in them. */
function createUrlCheck(rules: AddressRules) {
  const targets = createTargets(rules, resolveHost(), mostUrlCharacters);
  return async (url: string): Promise<string | undefined> => {
    if (url.length > mostUrlCharacters) return `it has more than ${mostUrlCharacters} characters`;
    try {
      await targets.check(url);
      return undefined;
    } catch (error) {
      if (error instanceof WebhookRefused) return error.why;
      if (error instanceof BadWebhookUrl) return "it is no URL";
      throw error;
    }
  };
}
