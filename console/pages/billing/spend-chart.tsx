import type { ReactNode } from "react";
import type { Spend } from "../../domain/spend.ts";
import { text } from "../../text/billing.ts";
import { TimeChart } from "../../ui/chart.tsx";
import { usd } from "../../ui/format.ts";

export function SpendChart({ times, usd: values }: Pick<Spend, "times" | "usd">): ReactNode {
  return <TimeChart title={text.byDay} times={times} kind="bars" show={usd} series={[{ name: text.spend, values }]} />;
}
