import { Group, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/operator-requests.ts";
import { FilterField } from "../../ui/filters.tsx";
import { Form } from "../../ui/form.tsx";
import { Empty, Page, Section } from "../../ui/page.tsx";
import { RequestList } from "./request-list.tsx";

/** Requests of one account, chosen first, and any request by its id. */
export function AnyRequests(): ReactNode {
  const [account] = useFilter("account");
  const navigate = useNavigate();
  return (
    <Page title={text.title} about={text.about}>
      <Section>
        <Form
          act={text.find}
          isReading
          onSend={async ({ id = "" }) => navigate({ to: `/any-request-log/${encodeURIComponent(id.trim())}` as never })}
        >
          <TextInput label={text.id} description={text.idHint} name="id" maxLength={256} required maw={480} />
        </Form>
      </Section>
      <Group>
        <FilterField name="account" label={text.account} maxLength={64} w={260} placeholder="u:…" />
      </Group>
      {account === "" ? <Empty>{text.choose}</Empty> : <RequestList key={account} account={account} />}
    </Page>
  );
}
