import { Code as CodeText, NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { suspendReasons } from "../../../proto/suspend-reason.ts";
import { refusalOf } from "../../api/client.ts";
import { useApi } from "../../api/context.ts";
import { useGet, usePages, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/operator-accounts.ts";
import { Act } from "../../ui/act.tsx";
import { Choice, listOf } from "../../ui/choice.tsx";
import { Code } from "../../ui/code.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { FilterField, More } from "../../ui/filters.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { usd } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { accountsPath } from "./account-path.ts";
import { AccountStatus, fundsText, Roles } from "./account-status.tsx";

const linkLimitMs = 30_000;

type AccountPage = Responses["GET /v1/admin/accounts"];
type Account = AccountPage["accounts"][number];

export function Accounts(): ReactNode {
  const [query] = useFilter("query");
  const [suspended, setSuspended] = useFilter("suspended");
  const pages = usePages<AccountPage>(accountsPath, { query, suspended, limit: "50" }, { everyMs: 30_000 });
  return (
    <Page
      title={text.title}
      about={text.about}
      actions={
        <>
          <SignInPolicy />
          <NewAccount />
        </>
      }
    >
      <Loaded query={pages}>
        {({ pages: loaded }) => (
          <DataTable
            name="accounts"
            rows={loaded.flatMap(({ accounts }) => accounts)}
            columns={columns}
            keyOf={({ uid }) => uid}
            isSearchedByServer
            filters={
              <>
                <FilterField name="query" label={text.search} maxLength={320} isSearch />
                <Choice label={text.status} options={standings} value={suspended} onChange={setSuspended} />
              </>
            }
            empty={text.empty}
            more={pages.hasNextPage && <More of={pages} />}
          />
        )}
      </Loaded>
    </Page>
  );
}

const standings = {
  "": text.allAccounts,
  any: text.allSuspended,
  ...Object.fromEntries(suspendReasons.map((reason) => [reason, text.reasons[reason]])),
};

const columns: readonly Column<Account>[] = [
  {
    name: text.account,
    value: (one) => one.display_name,
    show: (one) => (
      <>
        <Link to={`/accounts/${encodeURIComponent(one.uid)}`} fw={600} inherit>
          {one.display_name}
        </Link>{" "}
        <Roles of={one} />
        <div>
          <CodeText>{one.uid}</CodeText>
        </div>
      </>
    ),
  },
  { name: text.email, value: (one) => one.email },
  { name: text.funds, value: (one) => one.funds_usd ?? 0, show: (one) => fundsText(one.funds_usd) },
  { name: text.spent, value: (one) => one.spent_usd, show: (one) => usd(one.spent_usd) },
  {
    name: text.status,
    value: (one) => one.suspend_reason ?? text.active,
    show: (one) => <AccountStatus reason={one.suspend_reason} />,
  },
  {
    name: text.created,
    value: (one) => new Date(one.created_at * 1000).toISOString(),
    show: (one) => <Ago at={one.created_at} />,
  },
];

function NewAccount(): ReactNode {
  return (
    <Dialog label={text.create.label} variant="filled" leftSection={<IconPlus size={16} />}>
      {() => <NewAccountForm />}
    </Dialog>
  );
}

/** Link that signs the owner in, made with the key of the new account as `stoker auth link` does. */
function SignInLink({ apiKey }: { readonly apiKey: string }): ReactNode {
  const [url, setUrl] = useState<string | undefined>(undefined);
  const words = text.create;
  const make = async () => {
    // Without the operator's cookie: the key decides whose link it is.
    const answer = await fetch("/v1/auth/sign-in-link", {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}` },
      credentials: "omit",
      signal: AbortSignal.timeout(linkLimitMs),
    });
    if (!answer.ok) throw await refusalOf(answer);
    setUrl(((await answer.json()) as Responses["POST /v1/auth/sign-in-link"]).url);
  };
  return (
    <>
      <Text size="sm">{words.linkAbout}</Text>
      {url === undefined ? (
        <div>
          <Act label={words.makeLink} command="stoker auth link" onAct={make} />
        </div>
      ) : (
        <Code value={url} label={words.link} />
      )}
    </>
  );
}

function NewAccountForm(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [created, setCreated] = useState<Responses["POST /v1/admin/accounts"] | undefined>(undefined);
  const words = text.create;
  const create = async ({ email, name, credit }: Fields) => {
    const body = { email, display_name: name, credit_usd: Number(credit) };
    setCreated(await api.call("POST", accountsPath, body));
    await refresh(accountsPath);
  };
  if (created)
    return (
      <Stack gap="sm">
        <Text size="sm">{words.keyAbout}</Text>
        <Code value={created.api_key} label={words.key} />
        <SignInLink apiKey={created.api_key} />
        <div>
          <LinkButton to={`/accounts/${encodeURIComponent(created.uid)}`} variant="default">
            {words.open}
          </LinkButton>
        </div>
      </Stack>
    );
  return (
    <Form act={words.submit} onSend={create}>
      <TextInput label={words.email} name="email" type="email" maxLength={320} required data-autofocus />
      <TextInput label={words.name} description={words.nameHint} name="name" maxLength={64} required />
      <NumberInput label={words.credit} name="credit" min={0} decimalScale={2} defaultValue={0} required />
    </Form>
  );
}

const policyPath = "/v1/admin/sign-in-policy";

function SignInPolicy(): ReactNode {
  const words = text.policy;
  return (
    <Dialog label={words.label}>
      {(close) => (
        <Stack gap="sm">
          <Text size="sm">{words.about}</Text>
          <PolicyForm onDone={close} />
        </Stack>
      )}
    </Dialog>
  );
}

function PolicyForm({ onDone }: { onDone: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const words = text.policy;
  const policy = useGet<Responses["GET /v1/admin/sign-in-policy"]>(policyPath);
  const set = async ({ required }: Fields) => {
    await api.call("PUT", policyPath, { second_factor: required });
    await refresh(policyPath);
    onDone();
  };
  return (
    <Loaded query={policy}>
      {({ second_factor: required }) => (
        <Form act={words.submit} done={words.done} onSend={set}>
          <Select
            label={words.field}
            name="required"
            data={listOf(words.choices)}
            defaultValue={required}
            allowDeselect={false}
          />
        </Form>
      )}
    </Loaded>
  );
}
