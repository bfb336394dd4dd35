import { SimpleGrid, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/operator-requests.ts";
import { Form } from "../../ui/form.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { AccountFilter } from "./account-choice.tsx";
import { FailureList, Rejections, RequestList } from "./request-list.tsx";

/** Failed and rejected requests of all accounts, requests of one, and any request by its id. */
export function AnyRequests(): ReactNode {
  const [account] = useFilter("account");
  const navigate = useNavigate();
  return (
    <Page title={text.title} about={text.about}>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Section title={text.byId} about={text.idHint}>
          <Form
            act={text.find}
            isReading
            onSend={async ({ id = "" }) =>
              navigate({ to: `/any-request-log/${encodeURIComponent(id.trim())}` as never })
            }
          >
            <TextInput aria-label={text.id} placeholder={text.id} name="id" maxLength={256} required />
          </Form>
        </Section>
        <Section title={text.byAccount} about={text.choose}>
          <AccountFilter name="account" aria-label={text.account} />
        </Section>
      </SimpleGrid>
      {account === "" ? <FailureList /> : <RequestList key={account} account={account} />}
      <Rejections account={account} />
    </Page>
  );
}
