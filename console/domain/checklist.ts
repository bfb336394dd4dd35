// Conditions of spending for an account, and those that are not met.
import type { Responses } from "../../proto/gen/responses.ts";

export type Checklist = Responses["GET /payment/checklist"];
export type Funds = Responses["GET /payment/funds"];

/** USD ready to spend; negative: owed. The API returns the balance as a debt. */
export const fundsOf = ({ payments_balance: balance, recent }: Checklist): number => {
  const funds = -balance - recent;
  // Sums of floating-point numbers leave traces below a nano-dollar.
  return Math.round(funds * 1e9) / 1e9;
};

export type StepName = "email" | "card" | "address" | "funds" | "invoices";

export interface Step {
  readonly name: StepName;
  readonly isDone: boolean;
}

/** In the order in which a new customer does them. Without a payment provider there is no card to add. */
export function stepsOf(list: Checklist, provider: Funds["provider"]): readonly Step[] {
  const card: readonly Step[] =
    provider === "manual"
      ? []
      : [
          { name: "card", isDone: list.payment_method && list.suspend_reason !== "bad-cc" },
          { name: "address", isDone: list.billing_address },
        ];
  return [
    { name: "email", isDone: list.email },
    ...card,
    { name: "funds", isDone: fundsOf(list) > 0 },
    { name: "invoices", isDone: list.overdue_invoices === 0 },
  ];
}

/** Whole cents of an amount that a person typed in USD. */
export const centsOf = (typed = ""): number => Math.round(Number(typed) * 100);
