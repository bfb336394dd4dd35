// Funds, spend, what is missing, and how the account pays.
import { Anchor, Box, Progress, SimpleGrid, Stack } from "@mantine/core";
import { lazy, type ReactNode, Suspense } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet, useGetAll } from "../../api/hooks.ts";
import { type Checklist, type Funds, fundsOf } from "../../domain/checklist.ts";
import { daysQuery, spendOf } from "../../domain/spend.ts";
import { text } from "../../text/billing.ts";
import { usd, usdOfCents } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section, Stats } from "../../ui/page.tsx";
import { useNow } from "../../ui/time.tsx";
import { LimitAlerts } from "./alerts.tsx";
import { ChecklistSection } from "./checklist.tsx";
import { AddFunds, AutomaticTopup, CardAndAddress, MonthlyLimit } from "./forms.tsx";
import { LatestInvoices } from "./invoices.tsx";
import { Payments } from "./payments.tsx";

type Days = Responses["GET /v1/usage/days"];

export const checklistPath = "/payment/checklist?compute_owed=true";
export const fundsPath = "/payment/funds?limit=100";

// The chart's library arrives after the figures.
const SpendChart = lazy(async () => ({ default: (await import("./spend-chart.tsx")).SpendChart }));
/** Pixels of chart, title and read-out together. */
const chartHeight = 250;
const minuteMs = 60_000;

export function Billing(): ReactNode {
  const books = useGetAll<[Checklist, Funds]>([checklistPath, fundsPath], { everyMs: 15_000 });
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={books}>
        {([list, funds]) => (
          <Stack gap="lg">
            <Spending list={list} />
            <SimpleGrid cols={{ base: 1, lg: 2 }}>
              <ChecklistSection list={list} funds={funds} />
              <AddFunds funds={funds} />
              <MonthlyLimit limit={list.limit} />
              <AutomaticTopup list={list} />
            </SimpleGrid>
            <LimitAlerts />
            <Payments payments={funds.payments} />
            {funds.provider !== "manual" && <CardAndAddress list={list} />}
          </Stack>
        )}
      </Loaded>
      <Section
        title={text.invoices.latest}
        actions={
          <Link to="/invoices" size="sm">
            {text.invoices.all}
          </Link>
        }
      >
        <LatestInvoices />
      </Section>
    </Page>
  );
}

function Spending({ list }: { list: Checklist }): ReactNode {
  // The query changes once a day.
  const now = useNow();
  const days = useGet<Days>(daysQuery(now - (now % minuteMs)), { everyMs: minuteMs });
  const funds = fundsOf(list);
  const limit = {
    label: text.limit,
    value: list.limit === null ? text.noLimit : usd(list.limit),
    note:
      list.limit === null ? (
        <Anchor href="#monthly-limit" inherit>
          {text.noLimitNote}
        </Anchor>
      ) : undefined,
  };
  const available = {
    label: funds < 0 ? text.funds.owed : text.funds.available,
    value: <span id="funds">{usd(Math.abs(funds))}</span>,
    note: funds > 0 ? text.funds.left : text.funds.debt,
  };
  return (
    <Loaded query={days} skeleton={<Stats of={[available, limit]} />}>
      {({ days: rows }) => {
        const spend = spendOf(rows, now);
        return (
          <Stack gap="lg">
            <Stats
              of={[
                available,
                {
                  label: text.month,
                  value: usdOfCents(spend.month),
                  note: (
                    <Link to="/usage" inherit>
                      {text.details}
                    </Link>
                  ),
                },
                {
                  label: text.projected,
                  value: usdOfCents(rounded(spend.projected ?? spend.month)),
                  note: spend.projected === undefined ? text.noProjection : text.projectedNote,
                },
                list.limit === null
                  ? limit
                  : { ...limit, note: <LimitUse limit={list.limit} spent={list.limit_spend ?? 0} /> },
              ]}
            />
            <Section>
              <Suspense fallback={<Box h={chartHeight} />}>
                <SpendChart times={spend.times} usd={spend.usd} />
              </Suspense>
            </Section>
          </Stack>
        );
      }}
    </Loaded>
  );
}

/** A projection is no more exact than three digits, nor less than to the cent. */
const rounded = (cents: number): number => (cents >= 1 ? Math.round(cents) : Number(cents.toPrecision(3)));

function LimitUse({ limit, spent }: { limit: number; spent: number }): ReactNode {
  const percent = limit === 0 ? 100 : Math.min(100, (spent / limit) * 100);
  const color = percent >= 100 ? "red" : percent >= 80 ? "yellow" : "green";
  return (
    <>
      <Progress value={percent} color={color} size="sm" my={4} aria-label={text.limit} />
      {text.limitLeft(usd(Math.max(0, limit - spent)))}
    </>
  );
}
