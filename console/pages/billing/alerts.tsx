// Alerts of monthly limits, and the URL that receives them.
import { Checkbox, Stack, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGetAll, useRefresh } from "../../api/hooks.ts";
import { useVisitor } from "../../app/visitor.ts";
import { monthText } from "../../domain/invoice.ts";
import { text as all } from "../../text/billing.ts";
import { Command } from "../../ui/code.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

export type BillingConfig = Responses["GET /payment/config"];
type Alerts = Responses["GET /payment/limit-alerts"];
type LimitAlert = Alerts["alerts"][number];

const text = all.alerts;

export function LimitAlerts(): ReactNode {
  const loaded = useGetAll<[Alerts, BillingConfig]>(["/payment/limit-alerts?limit=100", "/payment/config"], {
    everyMs: 60_000,
  });
  return (
    <Section title={text.title} about={text.about}>
      <Loaded query={loaded}>
        {([{ alerts }, config]) => (
          <Stack gap="md">
            <AlertTargets config={config} />
            <DataTable
              name="alerts"
              id="a-"
              rows={alerts}
              columns={columns}
              keyOf={(one) => `${one.token_id} ${one.project_id} ${one.period} ${one.percent} ${one.limit}`}
              empty={text.empty}
              isShort={alerts.length < 10}
            />
          </Stack>
        )}
      </Loaded>
    </Section>
  );
}

function AlertTargets({ config }: { config: BillingConfig }): ReactNode {
  const { webhook, alert_mail: isMailed, sends_mail: sendsMail } = config;
  const api = useApi();
  const refresh = useRefresh();
  const { email } = useVisitor().me;
  const save = async ({ webhook: url = "", mail }: Fields) => {
    const change = sendsMail ? { alert_mail: mail !== undefined } : {};
    await api.call("POST", "/payment/config", { limit: null, webhook: url, ...change });
    await refresh("/payment/config");
  };
  return (
    <Stack gap="md">
      <Form act={text.save} done={text.saved} onSend={save} key={`${webhook} ${isMailed}`}>
        <TextInput
          label={text.url}
          description={text.urlHint}
          name="webhook"
          type="url"
          maxLength={2048}
          placeholder="https://example.com/alerts"
          defaultValue={webhook ?? ""}
        />
        {sendsMail && (
          <Checkbox
            label={text.mailTo(email ?? "")}
            description={text.mailHint}
            name="mail"
            defaultChecked={isMailed}
          />
        )}
      </Form>
      <Command value="stoker billing alerts https://example.com/alerts" />
    </Stack>
  );
}

const columns: readonly Column<LimitAlert>[] = [
  {
    name: text.when,
    value: (one) => new Date(one.created_at * 1000).toISOString(),
    show: (one) => <Ago at={one.created_at} />,
  },
  { name: text.month, value: (one) => one.period, show: (one) => monthText(one.period) },
  { name: text.limitOf, value: (one) => text.limits[one.scope](one.name ?? "") },
  { name: text.reached, value: (one) => one.percent, show: (one) => text.percent(one.percent) },
  { name: text.spent, value: (one) => one.spend, show: (one) => text.spentOf(usd(one.spend), usd(one.limit)) },
  {
    name: text.mail,
    value: (one) => one.mail ?? "",
    show: (one) => (one.mail === null ? text.notMailed : <Status of={one.mail} />),
  },
  {
    name: text.webhook,
    value: (one) => one.webhook_id,
    show: (one) =>
      one.webhook_id === null ? (
        text.notSent
      ) : (
        <Link to={`/webhooks?q=${one.webhook_id}`} size="sm">
          {text.delivery}
        </Link>
      ),
  },
];
