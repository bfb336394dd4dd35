// Lists and adds second factors of the user.
import { Button, Group, Image, List, NativeSelect, Stack, Text, TextInput, Title } from "@mantine/core";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { canUsePasskeys, createPasskey } from "../../api/passkey.ts";
import { text } from "../../text/security.ts";
import { Act } from "../../ui/act.tsx";
import { Code } from "../../ui/code.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type FactorList = Responses["GET /v1/me/factors"];
type Factor = FactorList["factors"][number];
type Started = Responses["POST /v1/me/factors"];
type Added = Responses["PUT /v1/me/factors"];

const path = "/v1/me/factors";

/** Calls `onKept` when the user has saved the recovery codes. */
export function SecondFactors({ onKept }: { onKept?: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const list = useGet<FactorList>(path);
  const [codes, setCodes] = useState<readonly string[] | undefined>(undefined);

  const added = async ({ recovery_codes: fresh }: Added) => {
    if (fresh) setCodes(fresh);
    await refresh(path);
    if (!fresh) onKept?.();
  };
  const renew = async () => {
    const { recovery_codes: fresh } = await api.call<Responses["POST /v1/me/recovery-codes"]>(
      "POST",
      "/v1/me/recovery-codes",
    );
    setCodes(fresh);
    await refresh(path);
  };
  if (codes) {
    const kept = () => {
      setCodes(undefined);
      onKept?.();
    };
    return <Kept codes={codes} onKept={kept} />;
  }
  return (
    <Loaded query={list}>
      {({ factors, recovery_codes_left: left, required }) => (
        <Stack gap="lg">
          <Section title={text.factors}>
            {factors.length === 0 ? (
              <Text>{required ? text.mustAdd : text.none}</Text>
            ) : (
              <Factors factors={factors} left={left} onRenew={renew} />
            )}
          </Section>
          {canUsePasskeys() && <AddPasskey onAdded={added} />}
          {!factors.some(({ kind }) => kind === "totp") && <AddApp onAdded={added} />}
        </Stack>
      )}
    </Loaded>
  );
}

interface FactorsProps {
  readonly factors: readonly Factor[];
  readonly left: number;
  readonly onRenew: () => Promise<void>;
}

function Factors({ factors, left, onRenew }: FactorsProps): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const at = (id: string) => `${path}/${encodeURIComponent(id)}`;
  const remove = async (id: string) => {
    await api.call("DELETE", at(id));
    await refresh(path);
  };
  const rename = async ({ factor = "", name }: Fields) => {
    await api.call("PATCH", at(factor), { name });
    await refresh(path);
  };
  return (
    <Stack gap="md">
      <List spacing="xs">
        {factors.map((one) => (
          <List.Item key={one.id}>
            <Group gap="xs">
              <Text size="sm">
                <span>{text.named(one.kind === "totp" ? text.app : text.passkey, one.name)}</span>, {text.added}{" "}
                <Ago at={one.created_at} />, {text.lastUsed} <Ago at={one.last_used_at} />
              </Text>
              <Act
                label={text.remove}
                confirm={{ title: text.removeTitle(one.name), body: text.removeBody }}
                onAct={() => remove(one.id)}
              />
            </Group>
          </List.Item>
        ))}
      </List>
      <Group gap="sm">
        <Text size="sm">{text.codesLeft(left)}</Text>
        <Act label={text.newCodes} confirm={{ title: text.newCodes, body: text.newCodesBody }} onAct={onRenew} />
      </Group>
      <Title order={3}>{text.renameTitle}</Title>
      <Form act={text.rename} done={text.renamed} isReset onSend={rename}>
        <Group align="flex-end">
          <NativeSelect
            label={text.secondFactor}
            name="factor"
            data={factors.map(({ id, name }) => ({ value: id, label: name }))}
          />
          <TextInput label={text.newName} name="name" maxLength={64} required />
        </Group>
      </Form>
    </Stack>
  );
}

interface AddProps {
  readonly onAdded: (added: Added) => Promise<void>;
}

function AddPasskey({ onAdded }: AddProps): ReactNode {
  const api = useApi();
  const add = async ({ name }: Fields) => {
    const { ticket, passkey } = await api.call<Started>("POST", path, { kind: "passkey" });
    await onAdded(await api.call<Added>("PUT", path, { ticket, name, passkey: await createPasskey(passkey ?? {}) }));
  };
  return (
    <Section title={text.addPasskey} about={text.passkeyAbout}>
      <Form act={text.addPasskey} onSend={add}>
        <TextInput
          label={text.passkeyName}
          name="name"
          maxLength={64}
          placeholder={text.passkeyExample}
          required
          maw={360}
        />
      </Form>
    </Section>
  );
}

function AddApp({ onAdded }: AddProps): ReactNode {
  const api = useApi();
  const [app, setApp] = useState<Started | undefined>(undefined);
  const confirm = async ({ name, code }: Fields) => {
    const added = await api.call<Added>("PUT", path, { ticket: app?.ticket, name, code });
    setApp(undefined);
    await onAdded(added);
  };
  return (
    <Section title={text.app}>
      {app?.totp ? (
        <Stack gap="sm">
          <Text size="sm">{text.scan}</Text>
          <Image
            alt={text.qr}
            src={`data:image/svg+xml,${encodeURIComponent(app.totp.qr_svg)}`}
            w={200}
            h={200}
            bg="white"
            p="xs"
          />
          <Code value={app.totp.secret} />
          <Form act={text.confirm} onSend={confirm}>
            <TextInput label={text.appName} name="name" maxLength={64} defaultValue={text.app} required maw={360} />
            <TextInput
              label={text.code}
              name="code"
              inputMode="numeric"
              autoComplete="one-time-code"
              pattern="[0-9]{6}"
              maxLength={6}
              required
              autoFocus
              maw={360}
            />
          </Form>
        </Stack>
      ) : (
        <div>
          <Act
            label={text.setUpApp}
            size="sm"
            onAct={async () => setApp(await api.call<Started>("POST", path, { kind: "totp" }))}
          />
        </div>
      )}
    </Section>
  );
}

/** Recovery codes, shown only once. */
function Kept({ codes, onKept }: { codes: readonly string[]; onKept: () => void }): ReactNode {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <Stack gap="md" component="section" aria-labelledby="recovery-codes">
      <Title order={2} id="recovery-codes" tabIndex={-1} ref={heading}>
        {text.saveCodes}
      </Title>
      <Text size="sm">{text.saveCodesAbout}</Text>
      <Code value={codes.join("\n")} />
      <div>
        <Button onClick={onKept}>{text.saved}</Button>
      </div>
    </Stack>
  );
}
