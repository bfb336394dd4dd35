import { Modal, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { actionOf } from "../domain/guarded-actions.ts";
import { text as common } from "../text/common.ts";
import { text } from "../text/sign-in.ts";
import { Command } from "../ui/code.tsx";
import { type SessionAnswer, SignInForm } from "./sign-in-form.tsx";
import { useVisitor } from "./visitor.ts";

interface ReauthenticateProps {
  /** The request that needs it. */
  readonly method: string;
  readonly path: string;
  readonly onEnd: (isDone: boolean) => void;
}

/** Dialog in which the user signs in again. */
export function Reauthenticate({ method, path, onEnd }: ReauthenticateProps): ReactNode {
  const { me } = useVisitor();
  const entered = async ({ uid }: SessionAnswer) => {
    // Another account signed in: discard this page.
    if (uid !== me.uid) location.reload();
    else onEnd(true);
  };
  return (
    <Modal
      opened
      onClose={() => onEnd(false)}
      title={text.signInAgain}
      closeButtonProps={{ "aria-label": common.cancel }}
      zIndex={400}
    >
      <Text size="sm" mb="md">
        {text.whyAgain(actionOf(method, path))}
      </Text>
      <SignInForm email={me.email ?? undefined} onEntered={entered} />
      <Text size="sm" c="dimmed" mt="md">
        {text.noneOfThese}
      </Text>
      <Command value="stoker auth link" />
    </Modal>
  );
}
