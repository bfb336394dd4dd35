// Applications to the startup program: an account applies, the operator decides once, an approval may add credit.
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { Act } from "../act.ts";
import { checkCursor, pageOf } from "../page.ts";
import { applicationDecided, applicationNotFound, applicationOpen } from "./errors.ts";

export type ApplicationStatus = "pending" | "approved" | "rejected";

export interface ApplicationParams {
  readonly company: string;
  readonly ceo: string;
  readonly funding: string;
  readonly foundedOn: string;
  readonly website: string;
  /** How the applicant learned of the program. */
  readonly deal: string;
}

export interface ApplicationRecord extends ApplicationParams {
  readonly id: string;
  readonly account: AccountId;
  readonly email: string;
  readonly status: ApplicationStatus;
  readonly createdAtMs: number;
  readonly decision: { readonly atMs: number; readonly by: string; readonly note: string } | null;
}

export interface Decision {
  readonly status: "approved" | "rejected";
  /** With an approval, in the same transaction; 0: none. */
  readonly credit: NanoUsd;
  readonly act: Act;
}

export interface ApplicationStore {
  /** `open`: the account has an undecided application. */
  insert(id: string, account: AccountId, request: ApplicationParams): Promise<"created" | "open">;
  find(id: string): Promise<ApplicationRecord | undefined>;
  latest(account: AccountId): Promise<ApplicationRecord | undefined>;
  /** Newest first, those after `after`. */
  list(
    status: ApplicationStatus | undefined,
    after: string | undefined,
    limit: number,
  ): Promise<readonly ApplicationRecord[]>;
  /** Guarded: the second of two decisions returns `decided`. Audited. */
  decide(id: string, decision: Decision): Promise<"done" | "gone" | "decided">;
}

export interface ApplicationPage {
  readonly applications: readonly ApplicationRecord[];
  /** Cursor of the next page; null on the last. */
  readonly nextCursor: string | null;
}

export function createApplications(store: ApplicationStore) {
  const found = (record: ApplicationRecord | undefined): ApplicationRecord => {
    if (!record) throw applicationNotFound();
    return record;
  };
  return {
    /** Throws applicationOpen. */
    async apply(account: AccountId, request: ApplicationParams): Promise<ApplicationRecord> {
      const id = randomId<"application">(16);
      if ((await store.insert(id, account, request)) === "open") throw applicationOpen();
      return found(await store.find(id));
    },
    /** The account's latest. Throws applicationNotFound. */
    own: async (account: AccountId): Promise<ApplicationRecord> => found(await store.latest(account)),
    /** Throws badCursor. */
    async list(
      status: ApplicationStatus | undefined,
      cursor: string | undefined,
      limit: number,
    ): Promise<ApplicationPage> {
      checkCursor(cursor, /^[0-9A-Za-z]{16}$/);
      const { page, nextCursor } = pageOf(await store.list(status, cursor, limit + 1), limit, ({ id }) => id);
      return { applications: page, nextCursor };
    },
    /** Throws applicationNotFound, applicationDecided. */
    async decide(id: string, decision: Decision): Promise<ApplicationRecord> {
      const outcome = await store.decide(id, decision);
      if (outcome === "gone") throw applicationNotFound();
      if (outcome === "decided") throw applicationDecided();
      return found(await store.find(id));
    },
  };
}

export type Applications = ReturnType<typeof createApplications>;
