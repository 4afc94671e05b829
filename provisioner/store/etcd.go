package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// etcdDB is a state under a prefix of etcd, which several controllers share.
type etcdDB struct {
	*session
	client *clientv3.Client
	at     place
	o      Options

	// base ends with Close, and all that runs for the store with it.
	base    context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	committer *committer
}

var _ database = (*etcdDB)(nil)

// etcdCapacity is how many keys one transaction changes: etcd takes 128, and some
// are of ours.
const etcdCapacity = 90

// openEtcd connects, makes sure that the prefix is a state of ours, and begins a session.
func openEtcd(ctx context.Context, at place, o Options) (*etcdDB, error) {
	d, err := dialEtcd(at, o)
	if err != nil {
		return nil, err
	}
	opening := context.AfterFunc(ctx, d.stop)
	defer opening()
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// dialEtcd makes the client; nothing is sent yet.
func dialEtcd(at place, o Options) (*etcdDB, error) {
	config := clientv3.Config{
		Endpoints: at.hosts, Username: o.Username, Password: o.Password, DialTimeout: o.Timeout,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		// gRPC's own way is to wait up to two minutes between attempts: longer than most outages.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: o.Timeout,
		})},
		Logger: zap.NewNop(), // every error is returned, and told once
	}
	var err error
	if config.TLS, err = tlsConfig(at, o); err != nil {
		return nil, err
	}
	d := &etcdDB{at: at, o: o}
	d.base, d.stop = context.WithCancel(context.Background())
	config.Context = d.base
	if d.client, err = clientv3.New(config); err != nil { // with a user it asks for a token at once
		err = d.explain(err)
		d.stop()
		return nil, fmt.Errorf("connect to the state %s: %w", at, err)
	}
	d.session = &session{d: d}
	d.committer = &committer{d: d, queue: make(chan *change), writer: rand.Text()}
	return d, nil
}

// begin checks what is there, and starts what runs as long as the store is open.
func (d *etcdDB) begin() error {
	if err := d.prepare(); err != nil {
		return err
	}
	if d.o.ReadOnly {
		return nil
	}
	if err := d.renew(); err != nil {
		return fmt.Errorf("begin a session with the state %s: %w", d.at, err)
	}
	d.running.Go(d.keep)
	d.running.Go(d.committer.run)
	return nil
}

// prepare makes an empty prefix a state, and refuses what is none (I6).
func (d *etcdDB) prepare() error {
	found, err := d.schemaState()
	if err != nil || found {
		return err
	}
	if d.o.ReadOnly {
		return fmt.Errorf("open the state %s: %w; a run creates it, or give its place with --state", d.at, ErrNoState)
	}
	err = d.request(func(ctx context.Context) error {
		_, err := d.client.Txn(ctx).If(d.empty()).Then(
			clientv3.OpPut(d.key(bucketMeta, []byte(keySchema)), SchemaVersion),
			clientv3.OpPut(d.key(bucketMeta, []byte(keySequence)), sequence{}.String()),
		).Commit()
		return err
	})
	if err != nil {
		return fmt.Errorf("prepare the state %s: %w", d.at, err)
	}
	found, err = d.schemaState() // another controller may have been quicker
	if err == nil && !found {
		err = d.foreign()
	}
	return err
}

// empty is true as long as nothing is under the prefix.
func (d *etcdDB) empty() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(d.at.prefix+"/"), "=", 0).WithPrefix()
}

// schemaState returns true for a state of ours and false for an empty prefix.
func (d *etcdDB) schemaState() (found bool, err error) {
	r := &etcdReader{d: d}
	schema, err := r.get(bucketMeta, []byte(keySchema))
	if err != nil {
		return false, fmt.Errorf("open the state %s: %w", d.at, err)
	}
	restoring, err := r.get(bucketMeta, []byte(keyRestoring))
	if err != nil {
		return false, fmt.Errorf("open the state %s: %w", d.at, err)
	}
	switch {
	case restoring != nil:
		return false, fmt.Errorf("the state %s is half restored: a restore was begun by %s and did not end; empty it with `etcdctl del --prefix %s/` and restore it again", d.at, restoring, d.at.prefix)
	case schema == nil:
		any, err := r.fetch(d.at.prefix+"/", clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return false, fmt.Errorf("open the state %s: %w", d.at, err)
		}
		if len(any.Kvs) > 0 {
			return false, d.foreign()
		}
		return false, nil
	case string(schema) == schemaBeforeBoots:
		return true, d.raiseSchema()
	case string(schema) != SchemaVersion:
		return false, fmt.Errorf("state %s has schema %q and this program writes %q: use the program that wrote it, or give another prefix", d.at, schema, SchemaVersion)
	}
	if sequenceKey, err := r.get(bucketMeta, []byte(keySequence)); err != nil || sequenceKey == nil {
		return false, errors.Join(err, fmt.Errorf("state %s has no %s: %w; restore a backup into another prefix", d.at, keySequence, ErrDamaged))
	}
	return true, nil
}

// schemaBeforeBoots had no boots of nodes. On etcd a bucket is there as soon as it has a key.
const schemaBeforeBoots = "2"

// raiseSchema keeps the programs of that schema off from now on: they would leave the boots out of a backup.
func (d *etcdDB) raiseSchema() error {
	if d.o.ReadOnly {
		return nil
	}
	key := d.key(bucketMeta, []byte(keySchema))
	err := d.request(func(ctx context.Context) error {
		_, err := d.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", schemaBeforeBoots)).Then(clientv3.OpPut(key, SchemaVersion)).Commit()
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate the state %s from schema %s to %s: %w", d.at, schemaBeforeBoots, SchemaVersion, err)
	}
	return nil
}

func (d *etcdDB) foreign() error {
	return fmt.Errorf("%s holds keys under %s/, but no state of this program: give another prefix with --state", d.at, d.at.prefix)
}

// key is where a key of a bucket is in etcd.
func (d *etcdDB) key(bucket string, key []byte) string {
	return d.at.prefix + "/" + bucket + "/" + string(key)
}

// request asks etcd within the timeout. A member that does not answer is left after
// a third of it: the next attempt goes to another one. What is asked must bear
// being asked twice.
func (d *etcdDB) request(ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(d.base, d.o.Timeout)
	defer cancel()
	for {
		err := d.attempt(ctx, ask)
		if err == nil || !transient(err) || !pause(ctx, retryPause) {
			return d.explain(err)
		}
	}
}

// retryPause is between two attempts when etcd refused the first at once.
const retryPause = 100 * time.Millisecond

func (d *etcdDB) attempt(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout/3)
	defer cancel()
	return ask(ctx)
}

// pause waits, and says whether ctx still lives.
func pause(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// transient errors may be gone the next time.
func transient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	// etcd's errors do not unwrap to a status; their codes are those of gRPC.
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal:
		return true
	default:
		return false
	}
}

func codeOf(err error) codes.Code {
	var coded interface{ Code() codes.Code }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return status.Code(err)
}

// explain says what can be done about an error of etcd.
func (d *etcdDB) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case d.base.Err() != nil:
		return errClosed
	case transient(err):
		return fmt.Errorf("%w: etcd at %s did not answer within %v (%w); see whether it runs and has a quorum: etcdctl endpoint status", ErrOutOfReach, strings.Join(d.at.hosts, ","), d.o.Timeout, err)
	}
	switch codeOf(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument:
		return fmt.Errorf("etcd refuses: %w; check the user, its password and its role for %s/", err, d.at.prefix)
	case codes.NotFound: // of all that is asked for here, only a lease can be missing
		return fmt.Errorf("%w: the session with etcd was lost (%w); a new one begins: try again", ErrOutOfReach, err)
	case codes.ResourceExhausted:
		return fmt.Errorf("etcd refuses: %w; make room in it (etcdctl alarm list, compact, defrag)", err)
	default:
		return fmt.Errorf("etcd refuses: %w", err)
	}
}

func (d *etcdDB) view(work func(reader) error) error { return work(&etcdReader{d: d}) }

func (d *etcdDB) update(work func(writer) error) error {
	if d.o.ReadOnly {
		return errReadOnly
	}
	return d.committer.do(work)
}

func (d *etcdDB) batch(work func(writer) error) error { return d.update(work) }

func (*etcdDB) capacity() int { return etcdCapacity }

func (d *etcdDB) backup(w io.Writer) error { return backupFrom(d, w) }

// Close ends the session, which frees every right, and the connection.
func (d *etcdDB) Close() error {
	d.end()
	d.stop()
	d.running.Wait()
	if err := d.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
