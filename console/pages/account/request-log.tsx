import type { ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import type { Key } from "../../domain/key-rules.ts";
import { text } from "../../text/request-log.ts";
import { Page, Section } from "../../ui/page.tsx";
import { useModels } from "../models/use-models.ts";
import { RejectedList } from "./rejected-requests.tsx";
import { FindRequest, RequestList } from "./request-list.tsx";

export function RequestLog(): ReactNode {
  const keys = useGet<readonly Key[]>("/v1/api-tokens");
  const models = useModels();
  const keyNames = new Map((keys.data ?? []).map(({ token_id: id, name }) => [id, name]));
  return (
    <Page title={text.title} about={text.about} actions={<FindRequest folder="/request-log" />}>
      <Section>
        <RequestList
          path="/v1/requests"
          folder="/request-log"
          keyNames={keyNames}
          models={(models.data ?? []).map((model) => model.model_name)}
        />
      </Section>
      <Section title={text.rejected.title} about={text.rejected.about}>
        <RejectedList path="/v1/rejected-requests" folder="/request-log" keyNames={keyNames} />
      </Section>
    </Page>
  );
}
