import { NativeSelect, NumberInput, SimpleGrid, Stack, Tabs, Text, Textarea } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useFilter } from "../../app/place.ts";
import { useVisitor } from "../../app/visitor.ts";
import type { Key } from "../../domain/key-rules.ts";
import {
  type DecodedToken,
  decodeToken,
  mintCommand,
  signingExamples,
  type TokenTerms,
} from "../../domain/scoped-token.ts";
import { text as all } from "../../text/keys.ts";
import { listOf } from "../../ui/choice.tsx";
import { Code, CodeTabs, Command } from "../../ui/code.tsx";
import { Form } from "../../ui/form.tsx";
import { inUtc, usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { ErrorNotice } from "../../ui/notice.tsx";
import { Empty, Facts, Section } from "../../ui/page.tsx";
import { Ago, useNow } from "../../ui/time.tsx";
import { ModelNames } from "./model-names.tsx";

const text = all.tokens;
const path = "/v1/scoped-jwt";
const tabs = Object.keys(text.tabs) as (keyof typeof text.tabs)[];

type State = Responses["GET /v1/scoped-jwt"];

export function ScopedTokens({ keys }: { keys: readonly Key[] }): ReactNode {
  const { me } = useVisitor();
  const [tab, setTab] = useFilter("tab");
  // A key that only reads signs nothing that could call a model.
  const names = keys.filter(({ role }) => role !== "read").map(({ name }) => name);
  const [terms, setTerms] = useState<Omit<TokenTerms, "account">>({
    keyName: "",
    models: [],
    lifeSeconds: 3600,
    limit: undefined,
  });
  const keyName = names.includes(terms.keyName) ? terms.keyName : (names[0] ?? "");
  const chosen = { ...terms, keyName, account: me.uid };
  const fields = <TermFields names={names} terms={chosen} onChange={setTerms} />;
  const needsKey = names.length === 0 && <Empty>{text.noKeys}</Empty>;
  return (
    <Section title={text.title} about={text.about}>
      <Tabs
        value={tabs.find((one) => one === tab) ?? "mint"}
        onChange={(value) => setTab(value === "mint" ? "" : (value ?? ""))}
        keepMounted={false}
      >
        <Tabs.List className="scrolling-tabs" aria-label={text.tab}>
          {tabs.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {text.tabs[one]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="mint" pt="md">
          {needsKey || <Mint terms={chosen}>{fields}</Mint>}
        </Tabs.Panel>
        <Tabs.Panel value="inspect" pt="md">
          <Inspect />
        </Tabs.Panel>
        <Tabs.Panel value="local" pt="md">
          {needsKey || (
            <Stack gap="md">
              <Text size="sm" c="dimmed">
                {text.localAbout}
              </Text>
              {fields}
              <CodeTabs examples={signingExamples(chosen)} />
            </Stack>
          )}
        </Tabs.Panel>
      </Tabs>
    </Section>
  );
}

interface TermFieldsProps {
  readonly names: readonly string[];
  readonly terms: TokenTerms;
  readonly onChange: (terms: Omit<TokenTerms, "account">) => void;
}

function TermFields({ names, terms, onChange }: TermFieldsProps): ReactNode {
  const set = (change: Partial<TokenTerms>) => onChange({ ...terms, ...change });
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      <NativeSelect
        label={text.key}
        description={text.keyHint}
        data={[...names]}
        value={terms.keyName}
        onChange={(event) => set({ keyName: event.currentTarget.value })}
      />
      <ModelNames
        label={text.models}
        description={text.modelsHint}
        any={text.anyModel}
        value={terms.models}
        onChange={(models) => set({ models })}
      />
      <NativeSelect
        label={text.lifetime}
        data={listOf(text.lifetimes)}
        value={`${terms.lifeSeconds}`}
        onChange={(event) => set({ lifeSeconds: Number(event.currentTarget.value) })}
      />
      <NumberInput
        label={text.limit}
        description={text.limitHint}
        placeholder={text.noLimit}
        value={terms.limit ?? ""}
        min={0}
        max={1_000_000_000}
        decimalScale={6}
        onChange={(value) => set({ limit: value === "" ? undefined : Number(value) })}
      />
    </SimpleGrid>
  );
}

function Mint({ terms, children }: { terms: TokenTerms; children: ReactNode }): ReactNode {
  const api = useApi();
  const [token, setToken] = useState("");
  const { keyName, models, lifeSeconds, limit } = terms;
  const mint = async () => {
    const answer = await api.call<Responses["POST /v1/scoped-jwt"]>("POST", path, {
      api_key_name: keyName,
      expires_delta: lifeSeconds,
      ...(models.length > 0 ? { models } : {}),
      ...(limit === undefined ? {} : { spending_limit: limit }),
    });
    setToken(answer.token);
  };
  return (
    <Stack gap="md">
      <Form act={text.create} onSend={mint}>
        {children}
        <Command value={mintCommand(terms)} />
      </Form>
      {token !== "" && (
        <div>
          <Text size="sm" mb="xs">
            {text.madeAbout}
          </Text>
          <Code value={token} label={text.made} />
        </div>
      )}
    </Stack>
  );
}

interface Found {
  readonly decoded: DecodedToken;
  readonly state?: State;
  readonly error?: unknown;
}

function Inspect(): ReactNode {
  const api = useApi();
  const [found, setFound] = useState<Found | undefined>(undefined);
  const inspect = async ({ token = "" }: Readonly<Record<string, string>>) => {
    setFound(undefined);
    const decoded = decodeToken(token);
    if (!decoded) throw new Error(text.notToken);
    const query = new URLSearchParams({ jwtoken: `jwt:${token.trim().replace("jwt:", "")}` });
    // What the token says of itself is shown also where the server refuses it.
    setFound(
      await api.call<State>("GET", `${path}?${query}`).then(
        (state) => ({ decoded, state }),
        (error: unknown) => ({ decoded, error }),
      ),
    );
  };
  return (
    <Stack gap="md">
      <Form act={text.inspect} onSend={inspect}>
        <Textarea
          label={text.token}
          description={text.tokenHint}
          name="token"
          placeholder="jwt:…"
          autoComplete="off"
          spellCheck={false}
          autosize
          minRows={3}
          maxRows={8}
          maxLength={8192}
          required
        />
      </Form>
      {found && <TokenFacts of={found} />}
    </Stack>
  );
}

function TokenFacts({ of: { decoded, state, error } }: { of: Found }): ReactNode {
  const { me } = useVisitor();
  const nowMs = useNow();
  const { account, keyName, expiresAt, claims, header } = decoded;
  const hasExpired = expiresAt !== undefined && expiresAt * 1000 <= nowMs;
  return (
    <Stack gap="md" component="section" aria-label={text.inspect}>
      <ErrorNotice error={error} />
      {state && (
        <Text size="sm" fw={600} {...(hasExpired ? { c: "red" } : {})}>
          {hasExpired ? text.expired : text.valid}
        </Text>
      )}
      <Facts
        of={[
          { label: text.signedBy, value: keyName ?? "–" },
          { label: text.account, value: account === me.uid ? account : `${account ?? "–"} (${text.otherAccount})` },
          {
            label: text.expires,
            value: expiresAt === undefined ? "–" : inUtc(expiresAt * 1000),
            note: expiresAt === undefined ? undefined : <Ago at={expiresAt} />,
          },
          { label: text.allowed, value: modelsOf(claims, state).join(", ") || text.anyModels },
          state && {
            label: text.spent,
            value:
              state.spending_limit === undefined
                ? text.noOwnLimit(usd(state.spending_current))
                : text.ofLimit(usd(state.spending_current), usd(state.spending_limit)),
            note: <Link to="/usage?by=token">{text.usage}</Link>,
          },
          state && { label: text.id, value: <code>{state.id}</code> },
          typeof claims["scope"] === "string" && { label: text.scope, value: claims["scope"] },
        ]}
      />
      <Code value={JSON.stringify({ header, claims }, null, 2)} label={text.claims} />
    </Stack>
  );
}

function modelsOf(claims: DecodedToken["claims"], state: State | undefined): readonly string[] {
  if (state) return state.models ?? [];
  const { models, model } = claims;
  if (Array.isArray(models)) return models.map(String);
  return typeof model === "string" ? [model] : [];
}
