// Usage of an account by end user and UTC day or month. Stored as long as usage.
import type { AccountId } from "../../proto/ids.ts";
import { type NanoUsd, nano } from "../../proto/money.ts";
import { invalid, notFound } from "../service-error.ts";
import { dayOf, readDays } from "./usage-days.ts";

export interface EndUserFilter {
  /** YYYY-MM-DD, both included. */
  readonly fromDay: string;
  readonly toDay: string;
  readonly by: "day" | "month";
  readonly model: string | undefined;
  /** Id of a key. */
  readonly key: string | undefined;
  /** Name. */
  readonly user: string | undefined;
  readonly order: "name" | "cost";
}

/** Place of a sum in the order of its period and name. */
export interface EndUserPlace {
  /** YYYY-MM-DD, or YYYY-MM of a month. */
  readonly period: string;
  /** Empty: end users without a name. */
  readonly user: string;
}

interface Sums {
  readonly period: string;
  /** Undefined: erased end users, and those beyond the number that a month names. */
  readonly user: string | undefined;
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface EndUserStore {
  /** In order of period and name, or the highest cost first. Throws ReportTooLong. */
  endUserSums(
    account: AccountId,
    filter: EndUserFilter,
    after: EndUserPlace | undefined,
    limit: number,
  ): Promise<readonly (Sums & { readonly cost: bigint })[]>;
  /** Removes the name; false: the account has no such end user. */
  eraseEndUser(account: AccountId, name: string): Promise<boolean>;
}

export interface EndUserUse extends Sums {
  readonly cost: NanoUsd;
}

export interface EndUserQuery extends Partial<Omit<EndUserFilter, "fromDay" | "toDay">> {
  /** YYYY-MM-DD. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** `next` of the previous page. */
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface EndUsers {
  /** `next` is undefined on the last page, and by cost. Throws badPeriod, badCursor, ReportTooLong. */
  list(
    account: AccountId,
    query: EndUserQuery,
  ): Promise<{ readonly users: readonly EndUserUse[]; readonly next: string | undefined }>;
  /** Erases the name of an end user: its sums stay, under no name. Throws endUserNotFound. */
  erase(account: AccountId, name: string): Promise<void>;
}

/** Longest period of one report. */
export const maxEndUserDays = 400;

export function createEndUsers(deps: { readonly store: EndUserStore; readonly unixMs?: () => number }): EndUsers {
  const unixMs = deps.unixMs ?? Date.now;
  return {
    async list(account, { from, to, by = "month", model, key, user, order = "name", after, limit }) {
      if (order === "cost" && after !== undefined) throw badCursor();
      const { firstMs, lastMs } = readDays(from, to, unixMs(), maxEndUserDays);
      const filter = { fromDay: dayOf(firstMs), toDay: dayOf(lastMs), by, model, key, user, order };
      const found = await deps.store.endUserSums(
        account,
        filter,
        after === undefined ? after : readPlace(after),
        limit + 1,
      );
      const users = found.slice(0, limit).map((use) => ({ ...use, cost: nano(use.cost) }));
      const last = users.at(-1);
      return { users, next: last && order === "name" && found.length > limit ? writePlace(last) : undefined };
    },
    async erase(account, name) {
      if (!(await deps.store.eraseEndUser(account, name))) throw endUserNotFound();
    },
  };
}

export const endUserNotFound = () => notFound("end_user_not_found", "End user not found.");

const badCursor = () =>
  invalid("bad_cursor", "`after` must be `next` of the previous page, in order of names.", {
    param: "after",
    in: "query",
  });

const writePlace = ({ period, user = "" }: Sums): string => Buffer.from(`${period} ${user}`).toString("base64url");

function readPlace(text: string): EndUserPlace {
  const [, period, user] = /^(\d{4}-\d{2}(?:-\d{2})?) ([^\0]*)$/s.exec(Buffer.from(text, "base64url").toString()) ?? [];
  if (period === undefined || user === undefined) throw badCursor();
  return { period, user };
}
