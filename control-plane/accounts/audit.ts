import type { AccountId } from "../../proto/ids.ts";
import { checkCursor, pageOf } from "../page.ts";

/** Actor, action, subject, time and address, with the state before and after. Append-only. */
export interface AuditRecord {
  readonly id: bigint;
  readonly atMs: number;
  readonly actor: string;
  /** E-mail address of the actor, or its uid if it was deleted; null: `system`. */
  readonly actorEmail: string | null;
  /** `noun.verb` */
  readonly action: string;
  readonly subject: string;
  /** E-mail address of an account, or its uid if it was deleted; name of a deployment, key, host or project. Null: none of these has a record. */
  readonly subjectName: string | null;
  /** Null: the installation. */
  readonly account: AccountId | null;
  readonly accountEmail: string | null;
  readonly ip: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly note: string;
}

export interface AuditFilter {
  /** Actions by this account or on it. */
  readonly account?: AccountId;
  /** Actions by this account, or by `system`. */
  readonly actor?: string;
  /** A whole action, or its noun: `account` finds account.create and account.suspend. */
  readonly action?: string;
  /** Unix ms, inclusive. */
  readonly fromMs?: number;
  /** Unix ms, exclusive. */
  readonly toMs?: number;
}

export interface AuditStore {
  /** Newest first, those with an id below `before`. */
  read(filter: AuditFilter, before: bigint | undefined, limit: number): Promise<readonly AuditRecord[]>;
}

export interface AuditPage {
  readonly records: readonly AuditRecord[];
  /** Cursor of the next page; null on the last. */
  readonly nextCursor: string | null;
}

export function createAuditLog(store: AuditStore) {
  return {
    /** Throws badCursor. */
    async read(filter: AuditFilter, cursor: string | undefined, limit: number): Promise<AuditPage> {
      checkCursor(cursor, /^\d{1,18}$/);
      const found = await store.read(filter, cursor === undefined ? undefined : BigInt(cursor), limit + 1);
      const { page, nextCursor } = pageOf(found, limit, ({ id }) => String(id));
      return { records: page, nextCursor };
    },
  };
}

export type AuditLog = ReturnType<typeof createAuditLog>;
