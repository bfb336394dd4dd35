// Stored responses: rows of an account whose content only its data key opens. A response in the background is such a row that any
// control plane claims and runs.
import type { AccountId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { accountGone } from "../accounts/errors.ts";
import {
  conversationTooLong,
  itemNotFound,
  notBackground,
  previousNotFound,
  previousUnfinished,
  responseNotFound,
  responseQueueFull,
  responsesFull,
  responseTooLarge,
} from "./errors.ts";
import type { NewResponse, ResponseLimits, ResponseRow, ResponseSize, ResponseStore, StoredStatus } from "./store.ts";

type Fields = Readonly<Record<string, unknown>>;
export type StoredItem = Fields & { readonly id: string };
export type StoredObject = Fields & { readonly id: string };

export interface StoredContent {
  /** Input of this response only, without that of the ones before it. */
  readonly items: readonly StoredItem[];
  /** As last shown; its status may be older than that of the row. */
  readonly response: StoredObject;
  /** Request of a response that has not run. */
  readonly body?: Fields;
  /** The caller's `x-request-id` and `x-service-source`. */
  readonly label?: string | undefined;
  readonly source?: string | undefined;
}

/** Encrypts content; bound to the response's id. */
export interface ResponseSeal {
  seal(account: AccountId, id: string, plain: Buffer): Promise<Buffer>;
  open(account: AccountId, id: string, sealed: Buffer): Promise<Buffer>;
}

export interface SavedResponse {
  readonly id: string;
  readonly previous: string | undefined;
  readonly status: StoredStatus;
  readonly content: StoredContent;
}

export interface Conversation {
  readonly items: readonly Fields[];
  readonly bytes: number;
}

/** Reserves memory for content before it is read; throws when there is none. */
export type HoldBytes = (bytes: number) => void;

export interface ItemsQuery {
  readonly order: "asc" | "desc";
  readonly limit: number;
  readonly after: string | undefined;
}

export interface Responses {
  /** Throws responsesFull. */
  checkSpace(account: AccountId): Promise<void>;
  /** Stores a response that has ended. Throws responsesFull, responseTooLarge. */
  save(caller: Caller, response: SavedResponse): Promise<void>;
  /** Stores a response to run in the background. Throws responsesFull, responseTooLarge, responseQueueFull. */
  queue(caller: Caller, response: Omit<SavedResponse, "status">): Promise<void>;
  /** Throws responseNotFound. */
  get(account: AccountId, id: string): Promise<StoredObject>;
  /** Throws responseNotFound, itemNotFound. */
  inputItems(
    account: AccountId,
    id: string,
    query: ItemsQuery,
  ): Promise<{ readonly items: readonly StoredItem[]; readonly hasMore: boolean }>;
  /** Throws responseNotFound. */
  remove(account: AccountId, id: string): Promise<void>;
  /** Ends a response in the background; one that has ended stays as it is. Throws responseNotFound, notBackground. */
  cancel(account: AccountId, id: string): Promise<StoredObject>;
  /** Items of a response and of all before it. Throws previousNotFound, previousUnfinished, conversationTooLong. */
  conversation(account: AccountId, id: string, hold: HoldBytes): Promise<Conversation>;
  /** Items of these responses, by their id. Throws conversationTooLong. */
  itemsOf(account: AccountId, ids: readonly string[], hold: HoldBytes): Promise<ReadonlyMap<string, StoredItem>>;
}

const mib = 1024 ** 2;
const lifeMs = 24 * 60 * 60 * 1000;
/** Maximum bytes of one response, sealed. */
export const maxResponseBytes = 16 * mib;
const maxConversationBytes = 32 * mib;
const maxChain = 1_000;
export const defaultLimits: ResponseLimits = { bytes: 1024 * mib, unfinished: 1_000 };

export function createResponses(deps: {
  readonly store: Pick<ResponseStore, "add" | "storedBytes" | "find" | "sizes" | "chain" | "remove" | "cancel">;
  readonly seal: ResponseSeal;
  readonly limits?: ResponseLimits;
  /** Called when a response waits to run, and when one was ended by its owner. */
  readonly onQueued: () => void;
  readonly onEnded: (id: string) => void;
}): Responses {
  const { store } = deps;
  const limits = deps.limits ?? defaultLimits;

  async function add(caller: Caller, response: SavedResponse, background: boolean): Promise<void> {
    const { account, key } = caller;
    const { id, previous, status, content } = response;
    const sealed = await sealContent(deps.seal, account, content);
    if (sealed.length > maxResponseBytes) throw responseTooLarge(maxResponseBytes);
    const row: NewResponse = { id, account, key, previous, status, background, sealed };
    const outcome = await store.add(row, lifeMs, limits);
    if (outcome === "gone") throw accountGone();
    if (outcome === "full") throw responsesFull(limits.bytes);
    if (outcome === "busy") throw responseQueueFull(limits.unfinished);
  }

  async function rowOf(account: AccountId, id: string): Promise<ResponseRow> {
    const [row] = await store.find(account, [id]);
    if (!row) throw responseNotFound(id);
    return row;
  }

  const contentOf = (account: AccountId, { id, sealed }: ResponseRow) => openContent(deps.seal, account, id, sealed);

  /** Items of these responses, in their order. */
  async function allItems(account: AccountId, sizes: readonly ResponseSize[], hold: HoldBytes) {
    const bytes = sizes.reduce((sum, one) => sum + one.bytes, 0);
    if (sizes.length > maxChain || bytes > maxConversationBytes)
      throw conversationTooLong(maxChain, maxConversationBytes);
    hold(bytes);
    const ids = sizes.map(({ id }) => id);
    const rows = ids.length > 0 ? await store.find(account, ids) : [];
    const contents = new Map(
      await Promise.all(rows.map(async (row) => [row.id, await contentOf(account, row)] as const)),
    );
    const items = ids.flatMap((id) => {
      const content = contents.get(id);
      // Deleted in the meantime.
      if (!content) throw previousNotFound(id);
      return [...content.items, ...outputOf(content.response)];
    });
    return { items, bytes };
  }

  async function get(account: AccountId, id: string): Promise<StoredObject> {
    const row = await rowOf(account, id);
    const { response } = await contentOf(account, row);
    return { ...response, status: row.status };
  }

  return {
    async checkSpace(account) {
      if ((await store.storedBytes(account)) >= limits.bytes) throw responsesFull(limits.bytes);
    },

    save: (caller, response) => add(caller, response, false),

    async queue(caller, response) {
      await add(caller, { ...response, status: "queued" }, true);
      deps.onQueued();
    },

    get,

    async inputItems(account, id, { order, limit, after }) {
      const { items } = await contentOf(account, await rowOf(account, id));
      const ordered = order === "asc" ? items : items.toReversed();
      const start = after === undefined ? 0 : ordered.findIndex((item) => item.id === after) + 1;
      if (after !== undefined && start === 0) throw itemNotFound(after);
      return { items: ordered.slice(start, start + limit), hasMore: ordered.length > start + limit };
    },

    async remove(account, id) {
      if (!(await store.remove(account, id))) throw responseNotFound(id);
      deps.onEnded(id);
    },

    async cancel(account, id) {
      const { background } = await rowOf(account, id);
      if (!background) throw notBackground(id);
      await store.cancel(account, id);
      deps.onEnded(id);
      return get(account, id);
    },

    async conversation(account, id, hold) {
      const sizes = await store.chain(account, id, maxChain);
      if (!sizes) throw previousNotFound(id);
      if (sizes.some(({ status }) => status === "queued" || status === "in_progress")) throw previousUnfinished(id);
      return allItems(account, sizes, hold);
    },

    async itemsOf(account, ids, hold) {
      const { items } = await allItems(account, await store.sizes(account, ids), hold);
      return new Map(items.map((item) => [item.id, item]));
    },
  };
}

const outputOf = ({ output }: StoredObject): readonly StoredItem[] => (output ?? []) as readonly StoredItem[];

export async function sealContent(seal: ResponseSeal, account: AccountId, content: StoredContent): Promise<Buffer> {
  return seal.seal(account, content.response.id, Buffer.from(JSON.stringify(content)));
}

export async function openContent(
  seal: ResponseSeal,
  account: AccountId,
  id: string,
  sealed: Buffer,
): Promise<StoredContent> {
  return JSON.parse((await seal.open(account, id, sealed)).toString()) as StoredContent;
}
