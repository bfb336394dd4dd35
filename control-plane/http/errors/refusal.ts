// What an error says to a caller, before a dialect gives it its form.
import type { ErrorKind } from "../../service-error.ts";
import type { Detail } from "./validation-detail.ts";

export interface Refusal {
  readonly kind: ErrorKind;
  readonly status: number;
  readonly message: string;
  readonly code: string;
  readonly param: string | undefined;
  readonly detail: readonly Detail[] | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly phase: string | undefined;
  readonly etaSeconds: number | undefined;
  /** For the log. */
  readonly cause: unknown;
}
