import { Textarea } from "@mantine/core";
import type { ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { text as all } from "../../text/billing.ts";
import { type Fields, Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import type { BillingConfig } from "./alerts.tsx";

const text = all.address;

/** What invoices of coming months print below the buyer's name. */
export function InvoiceAddress(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const config = useGet<BillingConfig>("/payment/config");
  const save = async ({ address = "" }: Fields) => {
    await api.call("POST", "/payment/config", { limit: null, invoice_address: address });
    await refresh("/payment/config");
  };
  return (
    <Section title={text.title} about={text.about}>
      <Loaded query={config}>
        {({ invoice_address: address }) => (
          <Form act={text.save} done={text.saved} onSend={save} key={address}>
            <Textarea
              label={text.field}
              name="address"
              autosize
              minRows={3}
              maxLength={500}
              defaultValue={address}
              autoComplete="street-address"
            />
          </Form>
        )}
      </Loaded>
    </Section>
  );
}
