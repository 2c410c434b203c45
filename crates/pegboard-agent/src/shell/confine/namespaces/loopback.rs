//! Brings up the loopback interface of a new network namespace, which is down at first.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// `RTM_NEWLINK`.
const NEW_LINK: u16 = 16;

/// `NLM_F_REQUEST` and `NLM_F_ACK`.
const REQUEST: u16 = 1 | 4;

/// `NLMSG_ERROR`, which is also the kind of an acknowledgement.
const ACKNOWLEDGED: u16 = 2;

/// The index of the loopback interface in every network namespace.
const INDEX: i32 = 1;

/// `IFF_UP`.
const UP: u32 = 1;

/// The length of the header of a message, and of this whole message.
const HEADER: usize = 16;
const LENGTH: usize = 32;

/// Brings the interface up. The kernel gives it its address.
pub(super) fn raise() -> io::Result<()> {
    // The default protocol is that of routes and interfaces.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut reply = [0; 256];
    let (_, length) = recv(&socket, &mut reply[..], RecvFlags::empty())?;
    acknowledged(&reply[..length.min(reply.len())])
}

/// Returns the request to bring the interface up, in native byte order.
fn request() -> Vec<u8> {
    let mut message = Vec::with_capacity(LENGTH);
    message.extend(u32::to_ne_bytes(LENGTH as u32));
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // Sequence number and sender are zero: there is one message, and the kernel knows its sender.
    message.extend([0; 8]);
    // Family and type are zero.
    message.extend([0; 4]);
    message.extend(INDEX.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // The mask of the changed flags.
    message.extend(UP.to_ne_bytes());
    message
}

fn acknowledged(reply: &[u8]) -> io::Result<()> {
    let kind = reply.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    let code = reply.get(HEADER..HEADER + 4).and_then(|bytes| Some(i32::from_ne_bytes(bytes.try_into().ok()?)));
    match (kind, code) {
        (Some(ACKNOWLEDGED), Some(0)) => Ok(()),
        (Some(ACKNOWLEDGED), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let reply = |kind: u16, code: i32| {
            let mut reply = vec![0; 36];
            reply[4..6].copy_from_slice(&kind.to_ne_bytes());
            reply[16..20].copy_from_slice(&code.to_ne_bytes());
            acknowledged(&reply).map_err(|error| error.raw_os_error())
        };
        assert_eq!(reply(ACKNOWLEDGED, 0), Ok(()));
        assert_eq!(reply(ACKNOWLEDGED, -1), Err(Some(1)));
        assert_eq!(reply(ACKNOWLEDGED, i32::MIN), Err(Some(i32::MAX)));
        assert_eq!(reply(16, 0), Err(None));
        assert!(acknowledged(&[]).is_err());
        assert_eq!(request().len(), LENGTH);
    }
}
