import { Button, type ButtonProps, Group, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { type FormEvent, type ReactNode, useState } from "react";
import { type Right, useBarred } from "../app/visitor.ts";
import { ErrorNotice } from "./notice.tsx";

/** Fields of a form by name. */
export type Fields = Readonly<Record<string, string>>;

interface FormProps {
  /** Label of the button. */
  readonly act: string;
  /** Success message. Omitted if the page shows the result. */
  readonly done?: string;
  /** Empties the fields after success. */
  readonly isReset?: boolean;
  readonly disabled?: boolean;
  /** Changes nothing, so an operator who views the account may use it too. */
  readonly isReading?: boolean;
  /** Default: the right of the page. */
  readonly needs?: Right;
  readonly color?: ButtonProps["color"];
  /** Further buttons beside the main one. */
  readonly beside?: ReactNode;
  /** `form` also contains files. */
  readonly onSend: (fields: Fields, form: FormData) => Promise<unknown>;
  readonly children?: ReactNode;
}

/** Form of Mantine's inputs with `name` and `defaultValue`. Errors of the server appear below it. */
export function Form(props: FormProps): ReactNode {
  const { act, done, isReset, disabled, isReading, needs, color, beside, onSend, children } = props;
  const barred = useBarred(needs);
  const why = isReading ? undefined : barred;
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const send = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (isBusy) return;
    const form = event.currentTarget;
    const data = new FormData(form, (event.nativeEvent as SubmitEvent).submitter);
    const fields: Record<string, string> = {};
    for (const [name, value] of data) fields[name] = typeof value === "string" ? value : "";
    setBusy(true);
    setError(undefined);
    try {
      await onSend(fields, data);
      if (isReset) form.reset();
      if (done) notifications.show({ message: done, color: "green" });
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void send(event)}>
      <Stack gap="sm">
        {children}
        <ErrorNotice error={error} />
        <Group gap="sm">
          <Button type="submit" loading={isBusy} disabled={disabled || why !== undefined} {...(color ? { color } : {})}>
            {act}
          </Button>
          {why && (
            <Text size="xs" c="dimmed">
              {why}
            </Text>
          )}
          {beside}
        </Group>
      </Stack>
    </form>
  );
}
