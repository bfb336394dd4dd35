// Forms of the billing page: add funds, top up automatically, limit the month, and the provider's page of cards.
import { Alert, Group, NumberInput, SimpleGrid, Stack, Switch, Text } from "@mantine/core";
import { IconHourglass } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useRefresh } from "../../api/hooks.ts";
import { base } from "../../app/base.ts";
import { type Checklist, centsOf, type Funds } from "../../domain/checklist.ts";
import { text as all } from "../../text/billing.ts";
import { Act } from "../../ui/act.tsx";
import { Command } from "../../ui/code.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { usdOfCents } from "../../ui/format.ts";
import { Facts, Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

const dollar = <Text size="sm">$</Text>;
const amount = { leftSection: dollar, decimalScale: 2, hideControls: true, min: 0 } as const;

export function AddFunds({ funds: { provider, payments } }: { funds: Funds }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const add = async ({ amount: typed }: Fields) => {
    type Checkout = Responses["POST /payment/funds"];
    const { checkout_url: page } = await api.call<Checkout>("POST", "/payment/funds", { amount: centsOf(typed) });
    if (page !== null) location.assign(page);
    await refresh("/payment/");
  };
  const text = all.add;
  return (
    <Section title={text.title} about={provider === "manual" ? text.manual : text.stripe}>
      <Stack gap="md" id="add-funds">
        {payments
          .filter(({ status }) => status === "requested" || status === "charging")
          .map((one) => (
            <Alert key={one.id} color="yellow" variant="light" icon={<IconHourglass />} role="status">
              {(one.status === "requested" ? text.waitsForOperator : text.waitsForProvider)(usdOfCents(one.amount))}{" "}
              <Ago at={one.created_at} />. {one.status === "requested" && text.replaces}
            </Alert>
          ))}
        <Form act={text.act} {...(provider === "manual" ? { done: text.asked } : {})} isReset onSend={add}>
          <NumberInput label={text.amount} name="amount" {...amount} min={1} max={1_000_000} required />
        </Form>
        <Command value="stoker billing funds 25" />
      </Stack>
    </Section>
  );
}

export function MonthlyLimit({ limit }: { limit: number | null }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const text = all.monthly;
  const save = async ({ limit: typed = "" }: Fields) => {
    await api.call("POST", "/payment/config", { limit: typed === "" ? -1 : Number(typed) });
    await refresh("/payment/");
  };
  return (
    <Section title={text.title} about={text.about}>
      <Stack gap="md" id="monthly-limit">
        <Form act={text.act} done={text.saved} onSend={save}>
          <NumberInput
            // Shows what another page saved.
            key={limit}
            label={text.field}
            name="limit"
            {...amount}
            placeholder={text.none}
            defaultValue={limit ?? ""}
          />
        </Form>
        <Command value="stoker billing limit 100" />
      </Stack>
    </Section>
  );
}

export function AutomaticTopup({ list }: { list: Checklist }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const text = all.topup;
  const save = async ({ amount: typed, threshold, enabled }: Fields) => {
    const body = { amount: centsOf(typed), threshold: centsOf(threshold), enabled: enabled === "on" };
    await api.call("POST", "/payment/topup", body);
    await refresh("/payment/");
  };
  return (
    <Section title={text.title} about={text.about}>
      <Form
        act={text.act}
        done={text.saved}
        onSend={save}
        key={`${list.topup} ${list.topup_amount} ${list.topup_threshold}`}
      >
        <Switch label={text.enabled} name="enabled" defaultChecked={list.topup} />
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <NumberInput label={text.amount} name="amount" {...amount} defaultValue={list.topup_amount / 100} />
          <NumberInput label={text.threshold} name="threshold" {...amount} defaultValue={list.topup_threshold / 100} />
        </SimpleGrid>
      </Form>
    </Section>
  );
}

/** Opens the provider's page of cards and addresses, which returns here. */
export function PortalButton({ label = all.method.act }: { label?: string }): ReactNode {
  const api = useApi();
  const open = async () => {
    const query = new URLSearchParams({ return_url: `${location.origin}${base}/billing` });
    const { url } = await api.call<Responses["GET /payment/billing-portal"]>("GET", `/payment/billing-portal?${query}`);
    location.assign(url);
  };
  return <Act label={label} onAct={open} />;
}

export function CardAndAddress({ list }: { list: Checklist }): ReactNode {
  const text = all.method;
  const words = (isThere: boolean) => (isThere ? text.yes : text.no);
  return (
    <Section title={text.title} about={text.stripe}>
      <Stack gap="md">
        <Facts
          of={[
            { label: text.onFile, value: words(list.payment_method) },
            { label: text.address, value: words(list.billing_address) },
          ]}
        />
        <Group>
          <PortalButton />
        </Group>
      </Stack>
    </Section>
  );
}
