// Applications to the startup program: an account applies, the operator decides once, and an approval may bring credit.
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { Act } from "./act.ts";
import { ApplicationDecided, ApplicationNotFound, ApplicationOpen, BadCursor } from "./errors.ts";

export type ApplicationStatus = "pending" | "approved" | "rejected";

export interface ApplicationWish {
  readonly company: string;
  readonly ceo: string;
  readonly funding: string;
  readonly foundedOn: string;
  readonly website: string;
  /** Of whom the applicant heard of the program. */
  readonly deal: string;
}

export interface ApplicationRecord extends ApplicationWish {
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
  /** `open`: the account has one that is not decided yet. */
  insert(id: string, account: AccountId, wish: ApplicationWish): Promise<"created" | "open">;
  find(id: string): Promise<ApplicationRecord | undefined>;
  latest(account: AccountId): Promise<ApplicationRecord | undefined>;
  /** Newest first, those after `after`. */
  list(
    status: ApplicationStatus | undefined,
    after: string | undefined,
    limit: number,
  ): Promise<readonly ApplicationRecord[]>;
  /** Guarded: of two decisions one is `decided` already. Audited. */
  decide(id: string, decision: Decision): Promise<"done" | "gone" | "decided">;
}

export interface ApplicationPage {
  readonly applications: readonly ApplicationRecord[];
  /** Asks for the page after this one; null on the last. */
  readonly nextCursor: string | null;
}

export interface Applications {
  /** Throws ApplicationOpen. */
  apply(account: AccountId, wish: ApplicationWish): Promise<ApplicationRecord>;
  /** The account's latest. Throws ApplicationNotFound. */
  own(account: AccountId): Promise<ApplicationRecord>;
  /** Throws BadCursor. */
  list(status: ApplicationStatus | undefined, cursor: string | undefined, limit: number): Promise<ApplicationPage>;
  /** Throws ApplicationNotFound, ApplicationDecided. */
  decide(id: string, decision: Decision): Promise<ApplicationRecord>;
}

export function createApplications(store: ApplicationStore): Applications {
  const found = (record: ApplicationRecord | undefined): ApplicationRecord => {
    if (!record) throw new ApplicationNotFound();
    return record;
  };
  return {
    async apply(account, wish) {
      const id = randomId<"application">(16);
      if ((await store.insert(id, account, wish)) === "open") throw new ApplicationOpen();
      return found(await store.find(id));
    },
    own: async (account) => found(await store.latest(account)),
    async list(status, cursor, limit) {
      if (cursor !== undefined && !/^[0-9A-Za-z]{16}$/.test(cursor)) throw new BadCursor();
      const all = await store.list(status, cursor, limit + 1);
      const applications = all.slice(0, limit);
      return { applications, nextCursor: all.length > limit ? (applications.at(-1)?.id ?? null) : null };
    },
    async decide(id, decision) {
      const outcome = await store.decide(id, decision);
      if (outcome === "gone") throw new ApplicationNotFound();
      if (outcome === "decided") throw new ApplicationDecided();
      return found(await store.find(id));
    },
  };
}
