// Pages of a list that is read from a cursor on. Every part of the control plane may import this file.
import { invalid } from "./service-error.ts";

export interface Page<Row> {
  readonly page: readonly Row[];
  /** Cursor of the next page; null on the last. */
  readonly nextCursor: string | null;
}

/** Throws for a cursor that is not of this form. */
export function checkCursor(cursor: string | undefined, form: RegExp): void {
  if (cursor !== undefined && !form.test(cursor))
    throw invalid("bad_cursor", "Invalid cursor. Send `next_cursor` of the previous page unchanged.", {
      param: "cursor",
      in: "query",
    });
}

/** `found`: one row more than `limit`, where there are more. */
export function pageOf<Row>(found: readonly Row[], limit: number, cursorOf: (last: Row) => string): Page<Row> {
  const page = found.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: last !== undefined && found.length > limit ? cursorOf(last) : null };
}
